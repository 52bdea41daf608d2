#!/usr/bin/env python3
"""Judges a client of kerfd by the rules of docs/spec: docs/spec/conformance.md.

conformance.py run --client COMMAND [--json] [--case CON-N...] [--advice fail]   0: it passed; 1: it failed a case; 2: usage, no client
conformance.py fake [--listen ADDRESS] ...                                       a kerfd with a switch for each failure
conformance.py list                                                              the cases, and the rules that each judges
"""

import argparse
import concurrent.futures
import contextlib
import json
import os
import sys
import time
import traceback

import cases_broken  # noqa: F401
import cases_collect  # noqa: F401
import cases_epoch  # noqa: F401
import cases_folder  # noqa: F401
import cases_upload  # noqa: F401
import cases_wrong  # noqa: F401
import fake_program
from case import CASES
from driven import PATIENCE_S, Failed, Refusal
from world import World

# Of time most of it is waited for.
JOBS = 4


class Judge:
    """Worlds, and the processes in them, serve one case behind the other; one that was failed in is given up."""

    def __init__(self, command, patience_s):
        self._command, self._patience_s = command, patience_s
        self._free = []

    def why_it_does_not_start(self):
        """Empty: it does."""
        world = World(self._command, self._patience_s)
        try:
            world.start()
        except (Failed, OSError, ValueError) as error:
            return f"{error}{world.last_words()}"
        finally:
            world.close()
        return ""

    def judge(self, case):
        """passed, failed or not asked; and why."""
        world = self._free.pop() if self._free else World(self._command, self._patience_s)
        result, why = "failed", ""
        try:
            missing = sorted(case.needs - world.can)
            if missing:
                result, why = "not asked", f"the client has no {', '.join(missing)}"
            else:
                world.begin()
                case.run(world)
                world.settle()
                result = "passed"
        except (Failed, Refusal) as error:
            why = "; ".join(dict.fromkeys([*world.violations(), str(error)]))
        except Exception:
            why = f"the kit: {traceback.format_exc()}"
        if result == "failed":
            why += world.last_words()
            world.close()
        else:
            self._free.append(world)
        return result, why

    def close(self):
        while self._free:
            self._free.pop().close()


def chosen(names):
    cases = [CASES[number] for number in sorted(CASES)]
    if not names:
        return cases
    found = [case for case in cases if case.name in names or set(names) & set(case.rules)]
    if not found:
        raise SystemExit(f"conformance: there is no case of {', '.join(names)}")
    return found


def run(arguments):
    cases = chosen(arguments.case)
    counts = dict.fromkeys(("passed", "failed", "advised", "not asked"), 0)
    judge = Judge(arguments.client, arguments.patience)
    if why := judge.why_it_does_not_start():
        print(f"conformance: '{arguments.client}' is no client: {why}", file=sys.stderr)
        return 2
    with contextlib.closing(judge), concurrent.futures.ThreadPoolExecutor(arguments.jobs) as threads:
        def timed(case):
            since = time.monotonic()
            return *judge.judge(case), time.monotonic() - since

        for case, (result, why, took_s) in zip(cases, threads.map(timed, cases), strict=True):
            if result == "failed" and case.is_advice and arguments.advice == "tell":
                result = "advised"
            counts[result] += 1
            if arguments.json:
                print(json.dumps({"case": case.name, "result": result, "title": case.title, "rules": case.rules, "why": why,
                                  "seconds": round(took_s, 2)}), flush=True)
            elif result != "passed" or arguments.verbose:
                print(f"{case.name} {result}: {case.title}" + (f": {why}" if why else "") + f" ({took_s:.1f} s)", flush=True)
    if arguments.json:
        print(json.dumps({"summary": counts, "client": arguments.client}))
    else:
        print(", ".join(f"{count} {result}" for result, count in counts.items()))
    return 1 if counts["failed"] or not counts["passed"] else 0


def show(_):
    for case in chosen(None):
        needs = f" [{', '.join(sorted(case.needs))}]" if case.needs else ""
        print(f"{case.name}{' (advice)' if case.is_advice else ''} {case.title}: {' '.join(case.rules)}{needs}")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True)
    verb = verbs.add_parser("run", help="judge a client")
    verb.add_argument("--client", required=True, help="the command that starts it, as a shell would read it")
    verb.add_argument("--case", action="append", help="CON-7, or a rule, COL-22: all cases that judge it; may be given again")
    verb.add_argument("--json", action="store_true", help="one object a line")
    verb.add_argument("--jobs", type=int, default=JOBS, help="so many cases at a time")
    verb.add_argument("--patience", type=float, default=PATIENCE_S, help="seconds of nothing after which a client is hung")
    verb.add_argument("--advice", choices=("tell", "fail"), default="tell", help="what a case of rules that say SHOULD means")
    verb.add_argument("--verbose", action="store_true")
    verb.set_defaults(run=run)
    fake_program.add(verbs)
    verbs.add_parser("list", help="the cases").set_defaults(run=show)
    arguments = parser.parse_args()
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    return arguments.run(arguments)


if __name__ == "__main__":
    sys.exit(main())
