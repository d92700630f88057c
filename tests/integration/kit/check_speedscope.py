# SPDX-License-Identifier: Apache-2.0
"""check_speedscope.py FILE: does it follow speedscope's file format?

The published schema, and what the viewer assumes beside it: as many weights as
samples, all frames there and used, no thread longer than the slice, all of
them beginning at 0. Exit 0, or 1 with the reason.
"""
from kit import strict
from kit.strict import demand, is_int

SCHEMA = "https://www.speedscope.app/file-format-schema.json"
KEYS = {"$schema", "exporter", "name", "activeProfileIndex", "profiles",
        "shared"}
PROFILE_KEYS = {"type", "name", "unit", "startValue", "endValue", "samples",
                "weights"}


def demand_text(value, what):
    demand(isinstance(value, str) and value, f"{what}: {value!r}")


def check_frames(frames):
    for index, frame in enumerate(frames):
        demand_text(frame.get("name"), f"name of frame {index}")
        demand(set(frame) <= {"name", "file", "line", "col"},
               f"frame {index}: {set(frame)}")
        if "file" in frame:
            demand_text(frame["file"], f"file of frame {index}")
    demand(len({(f["name"], f.get("file")) for f in frames}) == len(frames),
           "a frame twice")


def check_profile(index, profile, frames, used):
    where = f"profile {index}"
    demand(set(profile) == PROFILE_KEYS, f"{where}: {set(profile)}")
    demand(profile["type"] == "sampled", f"{where}: type")
    demand_text(profile["name"], f"{where}: name")
    demand(profile["unit"] == "nanoseconds", f"{where}: unit")
    demand(profile["startValue"] == 0, f"{where}: does not begin at 0")
    demand(is_int(profile["endValue"]), f"{where}: endValue")
    samples, weights = profile["samples"], profile["weights"]
    demand(len(samples) == len(weights) > 0,
           f"{where}: {len(samples)} samples, {len(weights)} weights")
    for stack in samples:
        demand(all(is_int(f) and 0 <= f < len(frames) for f in stack),
               f"{where}: frame out of range in {stack}")
        used.update(stack)
    demand(all(is_int(w) and 0 < w < 2 ** 53 for w in weights),
           f"{where}: a weight that is none")
    demand(sum(weights) <= profile["endValue"],
           f"{where}: {sum(weights)} ns in {profile['endValue']} ns")
    demand(not any(not a and not b for a, b in zip(samples, samples[1:])),
           f"{where}: two empty stacks in a row")


def check(path):
    document = strict.parse_json(strict.read_bytes(path))
    demand(set(document) == KEYS, f"keys {set(document) ^ KEYS}")
    demand(document["$schema"] == SCHEMA, "$schema")
    for key in ("exporter", "name"):
        demand_text(document[key], key)
    demand(set(document["shared"]) == {"frames"}, "shared")
    frames, profiles = document["shared"]["frames"], document["profiles"]
    check_frames(frames)
    used = set()
    for index, profile in enumerate(profiles):
        check_profile(index, profile, frames, used)
    demand(used == set(range(len(frames))), "frames that no stack names")
    demand(profiles and 0 <= document["activeProfileIndex"] < len(profiles),
           "activeProfileIndex")
    return f"{len(profiles)} threads, {len(frames)} functions"


if __name__ == "__main__":
    strict.main(check)
