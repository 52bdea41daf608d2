"""Does the kit find a client that leaves a rule out? mutants.py [RULE...]: each mutant of the Python client has to fail a case.

The mutants are those of client/python/tests/mutants_test.py: the package with one piece of its text replaced.
"""

import concurrent.futures
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

# What no case sees, and why. The client's own tests do.
UNSEEN = {
    "COL-10 range": "the bytes of such an answer do not compare either",
    **dict.fromkeys(("COL-45 pending first, and all of them", "CLI-35 an epoch that is damaged",
                     "CLI-34 a folder that is gone", "COL-47 durable as they were read", "COL-1 a store is begun once",
                     "CLI-20 behind a sync that failed, in the store", "CLI-20 a name that may be lost",
                     "COL-14 one that cannot be read"), "of the store in a folder: the kit has one of its own"),
    "CLI-33 roots": "of callers: a driver has roots that are digests",
    "CLI-32 a proxy": "the kit has no proxies",
    "PRO uncommitted chunks": "shows by chance only: how many answers a server has sent when a Commit comes",
    "COL-24 the same epoch": "what the caller is told: SHOULD",
    "CLI-11 progress": "an upload that gives up a little later",
    "CLI-12 from the first failure": "an upload that gives up a little earlier",
    "CLI-15 met": "an address that is mistyped is told later",
    "COL-28 what was read first": "the same as another mutant of COL-28, of recipes that were kept alone",
    "PRO memory": "memory of the client",
    "PRO silence": "seconds",
    "PRO silence is the server's": "seconds",
    "PRO RetryInfo": "seconds",
    "PRO jitter": "seconds",
    "PRO nobody was met": "seconds",
    "PRO a token in the clear": "the kit has no tokens",
    "PRO a token for another user": "the kit has no tokens",
    "PRO a token for whoever has no number": "the kit has no tokens",
    "ROUTE shard key": "speed: any key is right",
    "ROUTE addresses that mean others": "the kit has no fronts",
    "ROUTE detour": "the kit has no fronts",
    "ROUTE avoided until a chunk is answered": "the kit has no fronts",
}


def order(rule):
    """Those that judge the rule first, then what is quick."""
    number = re.match(r"[A-Z]+-\d+", rule)
    slow = {19, 57, 86, 87, 115, 116}
    return lambda case: (number is None or number[0] not in case.rules, case.number in slow, case.number)


def caught_by(folder, rule):
    command = f"env PYTHONPATH={folder} PYTHONDONTWRITEBYTECODE=1 GRPC_VERBOSITY=NONE {sys.executable} {DRIVER}"
    judge = conformance.Judge(command, PATIENCE_S)
    try:
        for case in sorted(conformance.chosen(None), key=order(rule)):
            result, why = judge.judge(case)
            if result == "failed":
                return case, why
    finally:
        judge.close()
    return None, ""


def play(mutant):
    rule, file, there, instead, _ = mutant
    with tempfile.TemporaryDirectory(prefix="kerf-mutant-") as folder:
        copy = pathlib.Path(folder) / "kerf"
        shutil.copytree(mutants_test.PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        text = (copy / file).read_text(encoding="utf-8")
        if text.count(there) != 1:
            return f"'{there}' stands {text.count(there)} times in {file}", None
        (copy / file).write_text(text.replace(there, instead), encoding="utf-8")
        case, why = caught_by(folder, rule)
        if case is None:
            return "no case has failed", None
        # Neither is a fault of the client.
        if why.startswith("the kit:") or "its first line is owed" in why:
            return f"{case.name}: {why}", None
        return "", f"{case.name}: {why[:160]}"


def main(rules):
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    chosen = [mutant for mutant in mutants_test.MUTANTS if mutant[0] not in UNSEEN
              and (not rules or any(mutant[0].startswith(rule) for rule in rules))]
    if unknown := set(UNSEEN) - {mutant[0] for mutant in mutants_test.MUTANTS}:
        raise SystemExit(f"mutants: there is no mutant {', '.join(sorted(unknown))}")
    survivors = 0
    with concurrent.futures.ThreadPoolExecutor(JOBS) as threads:
        for mutant, (wrong, found) in zip(chosen, threads.map(play, chosen), strict=True):
            survivors += bool(wrong)
            print(f"{mutant[0]}: {'NOT CAUGHT: ' + wrong if wrong else found}", flush=True)
    print(f"{len(chosen) - survivors} mutants caught, {survivors} not; {len(UNSEEN)} that no case can see")
    return 1 if survivors or not chosen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
