# SPDX-License-Identifier: Apache-2.0
"""Compares a recording with what the truth program wrote down about itself.

Errors are points (percent) of a thread's wall time in the recording, shown
minus true. Time below a marker is no error: it may belong to any function and
state, and is reported as the marked share. What is shown beyond the truth is an
error, and so is what is missing beyond the marked share. Callers may also be
missing where a stack is cut short, which has another marker.
"""
import bisect

# Their time is shown as not known.
MARKERS = ("[not sampled", "[kernel: not permitted]", "[stack unknown]",
           "[gap", "[overflow")
KERNEL = "[kernel: not permitted]"
CUT = "[truncated"
ROOT = "follow_plan"
# A thread leaves and enters its steps a little beside the times in the log.
EDGE_NS = 300000
SIDES = ("left", "right")


def is_marked(sample):
    return any(frame.startswith(MARKERS) for frame in sample.stack)


def is_cut(sample):
    return any(frame.startswith(CUT) for frame in sample.stack)


def side_of(function):
    """Of the two branches of scenario "twins"."""
    side = function.rpartition("_")[2]
    return side if side in SIDES else None


class Thread:
    """A thread's truth within the recording."""

    def __init__(self, truth, recording):
        self.truth = truth
        self.name = truth["name"]
        self.log = truth["log"]
        self.begins = [begin for _, begin, _ in self.log]
        self.begin_ns, self.end_ns = recording.begin_ns, recording.end_ns
        if self.log:
            # Embedded, the recording goes on until the last thread ends.
            self.begin_ns = max(self.begin_ns, self.begins[0])
            self.end_ns = min(self.end_ns, sum(self.log[-1][1:]))
        self.samples = [sample for sample
                        in recording.samples.get(self.name, [])
                        if self.begin_ns <= sample.ns <= self.end_ns]
        self.steps = truth["steps"]
        self.total = sum(s["ns"] for s in self.steps if not s["nested"])
        self.weight = sum(sample.weight for sample in self.samples) or 1
        self.marked = sum(sample.weight for sample in self.samples
                          if is_marked(sample)) / self.weight
        self.hidden = sum(sample.weight for sample in self.samples
                          if is_marked(sample) or is_cut(sample)) / self.weight

    def in_window(self, index):
        """ns of the step within the recording, or None: it is not logged."""
        spent = [max(0, min(begin + ns, self.end_ns) -
                     max(begin, self.begin_ns))
                 for step, begin, ns in self.log if step == index]
        return sum(spent) if spent else None

    def shares(self):
        """{function: (share, count of its steps in the recording)}"""
        window = self.end_ns - self.begin_ns
        shares = {}
        for index, step in enumerate(self.steps):
            ns = self.in_window(index)
            share = step["ns"] / self.total if ns is None else ns / window
            count = step["count"] * window / self.total
            before = shares.get(step["function"], (0, 0))
            shares[step["function"]] = before[0] + share, before[1] + count
        return shares

    def step_at(self, ns, edge_ns=0):
        """The step that the thread was in for edge_ns before and after."""
        at = bisect.bisect(self.begins, ns) - 1
        if at < 0:
            return None
        index, begin, spent = self.log[at]
        if begin + edge_ns <= ns <= begin + spent - edge_ns:
            return self.steps[index]
        return None

    def steps_near(self, ns, edge_ns):
        """Functions of the steps that the thread was in within edge_ns."""
        at = max(0, bisect.bisect(self.begins, ns - edge_ns) - 1)
        last = bisect.bisect(self.begins, ns + edge_ns)
        return {self.steps[index]["function"]
                for index, begin, spent in self.log[at:last]
                if begin + spent >= ns - edge_ns}

    def states(self):
        """{state: share of the thread's wall time}"""
        running = self.truth["cpu_ns"] / self.truth["ns"]
        runnable = self.truth["wait_ns"] / self.truth["ns"]
        return {"running": running, "runnable": runnable,
                "blocked": max(0, 1 - running - runnable)}


def excess(shown, true, marked):
    """What is shown beyond the truth, or missing beyond the marked share."""
    if shown > true:
        return shown - true
    return -max(0, true - shown - marked)


def noise(share, count, samples):
    """Standard deviation of a share that a perfect sampler shows: each end of
    a step falls anywhere between two ticks; steps shorter than a tick are
    drawn at random."""
    return min((share * (1 - share) / samples) ** 0.5,
               (count / 3) ** 0.5 / samples)


def kind_of_state(state):
    if state in ("running", "runnable"):
        return state
    return None if state == "unknown" else "blocked"


class Verdict:
    """The worst of all threads of one recording; points."""

    def __init__(self):
        self.functions = (0.0, 0.0, "")  # error, noise, where
        self.states = (0.0, "")
        self.at_ticks = (0.0, "")
        self.callers = (0.0, "")  # time in the kernel below a wrong function
        self.marked = 0.0
        # Beyond goal and noise: (how far, where)
        self.beyond = (-100.0, "")

    def add_function(self, where, error, noise_, goal):
        text = f"{where}: {100 * error:+.1f} (noise {100 * noise_:.1f})"
        if abs(error) >= abs(self.functions[0]):
            self.functions = error, noise_, text
        far = 100 * (abs(error) - 2 * noise_) - goal
        if far > self.beyond[0]:
            self.beyond = far, text


def judge_functions(thread, goal, verdict):
    clear = [sample for sample in thread.samples if not is_marked(sample)]
    for function, (share, count) in thread.shares().items():
        shown = sum(sample.weight for sample in clear
                    if function in sample.stack) / thread.weight
        where = f"{thread.name} {function}: {100 * shown:.1f} % for " \
                f"{100 * share:.1f} %"
        verdict.add_function(where, excess(shown, share, thread.hidden),
                             noise(share, count, max(1, len(thread.samples))),
                             goal)
        if not thread.log:
            continue
        # The same without the noise: what was true at the ticks.
        true = sum(sample.weight for sample in thread.samples
                   if (thread.step_at(sample.ns) or {}).get("function")
                   == function) / thread.weight
        error = excess(shown, true, thread.hidden)
        if abs(error) >= abs(verdict.at_ticks[0]) and not any(
                step["nested"] and step["function"] == function
                for step in thread.steps):
            verdict.at_ticks = error, f"{thread.name} {function}: " \
                f"{100 * error:+.1f}"


def judge_states(thread, verdict):
    kinds = [(kind_of_state(sample.state), sample) for sample
             in thread.samples]
    unknown = sum(sample.weight for kind, sample in kinds
                  if kind is None or is_marked(sample)) / thread.weight
    for state, share in thread.states().items():
        shown = sum(sample.weight for kind, sample in kinds if kind == state
                    and not is_marked(sample)) / thread.weight
        error = excess(shown, share, unknown)
        if abs(error) >= abs(verdict.states[0]):
            verdict.states = error, f"{thread.name} {state}: " \
                f"{100 * shown:.1f} % for {100 * share:.1f} %"


def judge_callers(thread, verdict):
    """Time in the kernel may be marked, but not below a function that the
    thread was not in."""
    functions = {step["function"] for step in thread.steps
                 if not step["nested"]}
    wrong, example = 0, ""
    if not thread.log:
        return
    for sample in thread.samples:
        if KERNEL not in sample.stack:
            continue
        shown = functions.intersection(sample.stack)
        near = thread.steps_near(sample.ns, EDGE_NS)
        if shown - near:
            wrong += sample.weight
            example = f"{thread.name} in {near}, below {shown}"
    if wrong / thread.weight >= verdict.callers[0]:
        verdict.callers = wrong / thread.weight, example


def judge(truth, recording, goal):
    """goal: points that are allowed beside the noise."""
    verdict = Verdict()
    for each in truth["threads"]:
        if not each["tid"]:
            continue
        thread = Thread(each, recording)
        judge_functions(thread, goal, verdict)
        judge_states(thread, verdict)
        judge_callers(thread, verdict)
        verdict.marked = max(verdict.marked, thread.marked)
    return verdict


def whole_stacks(truth, recording):
    """(whole, marked, all, example): samples well within a step. Whole: the
    step's function and the thread's root are both there."""
    whole = marked = total = 0
    example = ""
    for each in truth["threads"]:
        if not each["tid"]:
            continue
        thread = Thread(each, recording)
        for sample in thread.samples:
            step = thread.step_at(sample.ns, EDGE_NS)
            if not step:
                continue
            total += 1
            if ROOT in sample.stack and step["function"] in sample.stack:
                whole += 1
            elif is_marked(sample) or is_cut(sample):
                marked += 1
            else:
                example = f"{thread.name} in {step['function']}, shown " \
                    f"{sample.state}: {' '.join(sample.stack[:6])} … " \
                    f"{' '.join(sample.stack[-3:])}"
    return whole, marked, total, example


def branches(truth, recording):
    """(clear, wrong, example): samples without a marker, taken while a thread
    was in one branch only; those that show another one, or parts of two."""
    clear = wrong = 0
    example = ""
    for each in truth["threads"]:
        thread = Thread(each, recording)
        for sample in thread.samples:
            near = {side_of(function) for function
                    in thread.steps_near(sample.ns, EDGE_NS)}
            shown = {side_of(frame) for frame in sample.stack} - {None}
            if is_marked(sample) or not shown or \
                    len(near) > 1 and len(shown) == 1:
                continue
            clear += 1
            if shown != near:
                wrong += 1
                example = f"{thread.name} in {near}, shown {sample.state}: " \
                    + " ".join(sample.stack[:6])
    return clear, wrong, example


def cut_share(truth, recording):
    """Of all samples, those whose stack ends before its root."""
    samples = [sample for each in truth["threads"] if each["tid"]
               for sample in Thread(each, recording).samples]
    return sum(map(is_cut, samples)) / max(1, len(samples))


def short_lives(truth, recording, name):
    """Of the threads of this name, which all live less than a tick: (shown,
    marked, true) CPU time in points of the recording's wall time."""
    thread = next(t for t in truth["threads"] if t["name"] == name)
    lasted_ns = next(t["ns"] for t in truth["threads"] if t["tid"])
    samples = recording.samples.get(name, [])
    marked = sum(sample.weight for sample in samples if is_marked(sample))
    shown = sum(sample.weight for sample in samples
                if not is_marked(sample) and sample.state == "running")
    return (100 * shown / recording.ticks, 100 * marked / recording.ticks,
            100 * thread["cpu_ns"] / lasted_ns)
