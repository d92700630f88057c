# SPDX-License-Identifier: Apache-2.0
"""The stacks and spans that a transaction has (fgt_transaction_adopt).
test_adopting.py BUILD [GROUP…]"""
from kit.daemon_bench import Daemon, run_groups
from kit.transact import EVERY, Folder, Program, check_wrong


def threads_that_worked_for_it(checks, bench):
    daemon = Daemon(bench, "threads")
    for option, wanted in ((dict(threads="adopted"), {"transact", "adopted"}),
                           ({}, {"transact", "adopted", "stranger"})):
        folder = Folder(bench, "threads-" + "-".join(["out", *option]))
        program = Program(bench, mode="agent", socket=daemon.socket,
                          destination=folder.path, **EVERY, **option)
        program.run("begin x y", "adopted", "stranger", "burn 400", "finish")
        envelopes = folder.wait(1)
        # The library's worker is a thread of the process, too.
        names = envelopes[0].threads() - {"fgt-library"} if envelopes else ""
        checks.ok(f"{option or 'all threads'}: {sorted(wanted)}",
                  names == wanted, names)
        check_wrong(checks, str(option), envelopes)
        program.close()
    daemon.end()


def a_pool_works_for_others_too(checks, bench):
    daemon = Daemon(bench, "pool")
    for mode in ("agent", "embedded"):
        folder = Folder(bench, f"pool-{mode}")
        program = Program(bench, mode=mode, socket=daemon.socket,
                          destination=folder.path, threads="adopted", **EVERY)
        program.run("begin x y", "pool", "finish")
        envelopes = folder.wait(1)
        program.close()
        check_wrong(checks, mode, envelopes)
        found = envelopes[0].thread_functions("pooled") if envelopes else {}
        # A tick at the beginning or the end of a piece may count or not.
        checks.ok(f"{mode}: samples are those of the threads that worked for "
                  f"it",
                  found.get("burn_for_it", 0) >= 20 and
                  found.get("burn_beside_it", 0) <= 3, found)
        spans = {span["description"] for span in
                 envelopes[0].transaction["spans"]} if envelopes else ()
        checks.ok(f"{mode}: spans are those of the transaction only",
                  "inside" in spans and
                  "outside" not in spans, spans)
    daemon.end()


GROUPS = (threads_that_worked_for_it, a_pool_works_for_others_too)

if __name__ == "__main__":
    run_groups(GROUPS)
