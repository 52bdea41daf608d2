"""Does the kit find a client that leaves a rule out? mutants.py [--go DRIVER] [--cpp DRIVER] [RULE...]: each mutant of a client has to
fail a case.

Those of the Python client are those of client/python/tests/mutants_test.py: the package with one piece of its text replaced. Those of
the Go client are those of client/go/mutants, and those of libkerf are those of client/c/conformance/mutants.py, all compiled into
DRIVER, each behind a switch; DRIVER.json names them.
"""

import argparse
import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import shutil
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PYTHON = HERE.parent / "python"
sys.path.insert(0, str(PYTHON / "tests"))

import conformance  # noqa: E402
import mutants_test  # noqa: E402

DRIVER = PYTHON / "conformance/driver.py"
# So long a mutant may say nothing: most that hang wait for an answer that never comes.
PATIENCE_S = 120
JOBS = 3

FRONTS = "the kit has no fronts"
TOKENS = "the kit has no tokens"
MEMORY = "memory that no kit can look into"
A_SYNC_FAILS = "nobody can make a disk fail from outside of its store"

# What no case sees, and why. The client's own tests do.
UNSEEN = {
    "COL-47 durable as they were read": "what a power cut would leave: the kit cannot cut it",
    "CLI-20 behind a sync that failed, in the store": A_SYNC_FAILS,
    "CLI-20 a name that may be lost": A_SYNC_FAILS,
    "PRO uncommitted chunks": "shows by chance only: how many answers a server has sent when a Commit comes",
    "CLI-39 as it was read": MEMORY,
    "PRO-71 an answer's length": MEMORY,
    "PRO-71 answers that wait": MEMORY,
    "COL-24 the same epoch": "what the caller is told: SHOULD",
    "PRO silence": "seconds",
    "PRO silence is the server's": "seconds",
    "PRO jitter": "seconds, and by chance",
    "PRO a token in the clear": TOKENS,
    "PRO a token for another user": TOKENS,
    "PRO a token for whoever has no number": TOKENS,
    "CLI-27 a token that is none": TOKENS,
    "CLI-4 pings": "seconds",
    "ROUTE whom a certificate has to be of": FRONTS,
    "ROUTE shard key": "speed: any key is right",
    "ROUTE addresses that mean others": FRONTS,
    "ROUTE detour": FRONTS,
    "ROUTE avoided until a chunk is answered": FRONTS,
}
UNSEEN_OF_GO = {
    "CLI-39 as it was read": MEMORY,
    "COL-1 an epoch only rises": "nobody asks a store in a folder for one that does not",
    "COL-24 the same epoch": "what the caller is told: SHOULD",
    "COL-31 in one step that fails": "nothing that the kit sees is between the two steps of a store in a folder",
    "CLI-13 silence is the server's": "seconds",
    "CLI-20 behind a sync that failed, in the store": A_SYNC_FAILS,
    "CLI-20 a name that may be lost": A_SYNC_FAILS,
    "PRO-11 uncommitted chunks": "shows by chance only: how many answers a server has sent when a Commit comes",
    "PRO-61 at random": "seconds, and by chance",
    "PRO-71 an answer's length": MEMORY,
    "answers that wait": MEMORY,
    **dict.fromkeys(("a token in the clear", "CLI-27 a token for another user", "CLI-27 a token for whoever has no number",
                     "CLI-27 a token that is none"), TOKENS),
    "ROU-2 shard key": "speed: any key is right",
    **dict.fromkeys(("ROU-8 addresses that mean others", "ROU-8 a detour", "ROU-8 with a reason it is none",
                     "ROU-8 the front is asked again", "ROU-8 nobody tries on", "ROU-7 avoided",
                     "ROU-7 until a chunk is answered"), FRONTS),
}


class PythonClient:
    name, unseen = "Python", UNSEEN

    def __init__(self):
        self._mutants = {mutant[0]: mutant for mutant in mutants_test.MUTANTS}
        self.rules = list(self._mutants)

    @contextlib.contextmanager
    def mutant(self, rule):
        """The command of a client that leaves the rule out."""
        _, file, there, instead, _ = self._mutants[rule]
        with tempfile.TemporaryDirectory(prefix="kerf-mutant-") as folder:
            copy = pathlib.Path(folder) / "kerf"
            shutil.copytree(mutants_test.PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
            text = (copy / file).read_text(encoding="utf-8")
            if text.count(there) != 1:
                raise ValueError(f"'{there}' stands {text.count(there)} times in {file}")
            (copy / file).write_text(text.replace(there, instead), encoding="utf-8")
            yield f"env PYTHONPATH={folder} PYTHONDONTWRITEBYTECODE=1 GRPC_VERBOSITY=NONE {sys.executable} {DRIVER}"


class CompiledClient:
    def __init__(self, name, driver, switch, unseen):
        self.name, self.unseen = name, unseen
        self._driver, self._switch = driver, switch
        self.rules = json.loads(pathlib.Path(f"{driver}.json").read_text(encoding="utf-8"))

    @contextlib.contextmanager
    def mutant(self, rule):
        yield f"env {self._switch}={self.rules.index(rule)} {self._driver}"


def order(rule):
    """Those that judge the rule first, then what is quick."""
    number = re.match(r"[A-Z]+-\d+", rule)
    slow = {19, 26, 27, 57, 66, 67, 68, 86, 87, 115, 116}
    return lambda case: (number is None or number[0] not in case.rules, case.number in slow, case.number)


def caught_by(command, rule):
    judge = conformance.Judge(command, PATIENCE_S)
    try:
        for case in sorted(conformance.chosen(None), key=order(rule)):
            result, why = judge.judge(case)
            if result == "failed":
                return case, why
    finally:
        judge.close()
    return None, ""


def is_starved(wrong):
    """A machine that is too busy to start a program in time; no client says anything before it is asked."""
    return "its first line is owed" in wrong


def play(client, rule):
    """Why it counts as not caught, empty if it was; and by what."""
    try:
        with client.mutant(rule) as command:
            case, why = caught_by(command, rule)
    except ValueError as error:
        return str(error), ""
    if case is None:
        return "no case has failed", ""
    # Neither is a fault of the client.
    if why.startswith("the kit:") or is_starved(why):
        return f"{case.name}: {why}", ""
    return "", f"{case.name}: {why[:160]}"


def judge(client, chosen):
    """Those that were not caught."""
    survivors, starved = [], []

    def tell(rule, wrong, found):
        print(f"{client.name}: {rule}: {'NOT CAUGHT: ' + wrong if wrong else found}", flush=True)
        if wrong:
            survivors.append(rule)

    with concurrent.futures.ThreadPoolExecutor(JOBS) as threads:
        for rule, (wrong, found) in zip(chosen, threads.map(lambda rule: play(client, rule), chosen), strict=True):
            if is_starved(wrong):
                print(f"{client.name}: {rule}: did not start in {PATIENCE_S} s; once more, by itself, behind the others", flush=True)
                starved.append(rule)
            else:
                tell(rule, wrong, found)
    for rule in starved:
        tell(rule, *play(client, rule))
    return survivors


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--go", metavar="DRIVER", help="what client/go/mutants --driver has made; without it Python's alone are judged")
    parser.add_argument("--cpp", metavar="DRIVER", help="what Bazel makes of //client/c/conformance:mutants_driver")
    parser.add_argument("--client", choices=("Python", "Go", "C++"), help="those of one client alone")
    parser.add_argument("rules", nargs="*", metavar="RULE", help="the beginning of a rule, as COL-10: those alone")
    arguments = parser.parse_args()
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    clients = [PythonClient()]
    if arguments.go:
        clients.append(CompiledClient("Go", arguments.go, "KERF_GO_MUTANT", UNSEEN_OF_GO))
    if arguments.cpp:
        # There are mutants of rules alone that a case can see; the client's own tests hold it to the others.
        clients.append(CompiledClient("C++", arguments.cpp, "KERF_CPP_MUTANT", {}))
    played = missed = 0
    for client in clients:
        if unknown := set(client.unseen) - set(client.rules):
            raise SystemExit(f"mutants: there is no mutant of {client.name} {', '.join(sorted(unknown))}")
        if arguments.client not in (None, client.name):
            continue
        chosen = [rule for rule in client.rules if rule not in client.unseen
                  and (not arguments.rules or rule.startswith(tuple(arguments.rules)))]
        survivors = judge(client, chosen)
        played, missed = played + len(chosen), missed + len(survivors)
        print(f"{client.name}: {len(chosen) - len(survivors)} mutants caught, {len(survivors)} not; {len(client.unseen)} that no case can "
              "see", flush=True)
    return 1 if missed or not played else 0


if __name__ == "__main__":
    sys.exit(main())
