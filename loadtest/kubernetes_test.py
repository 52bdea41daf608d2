#!/usr/bin/env python3
"""loadtest/kubernetes with a kubectl that only plays one: verdict, reports, and that nothing is left behind; and logs
whose reports are damaged or reach out of their folder. tools/kube e2e runs it with real pods."""

import base64
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zlib

import report_log

HERE = pathlib.Path(__file__).resolve().parent
TIMEOUT_S = 60
TEXTS = {"report.html": "<html>ä\r\n", "report_stats.csv": "a,b\r\n1,2\r\n"}
AWAY = ("The connection to the server 127.0.0.1:6443 was refused - did you specify the right host or port?",
        "Unable to connect to the server: net/http: TLS handshake timeout",
        "Error from server (Timeout): the server was unable to return a response in the time allotted",
        "Error from server: etcdserver: leader changed")
REFUSED = ('Error from server (Forbidden): jobs.batch "kerf-load-master" is forbidden: User "me" cannot get resource "jobs"',
           'Error from server (NotFound): namespaces "kerf-load" not found',
           "error: You must be logged in to the server (Unauthorized)")
KUBECTL = """#!/usr/bin/env python3
import json, os, shutil, sys
words, here = sys.argv[1:], os.path.dirname(__file__)
with open(f"{here}/said", "a") as said:
    print(*words, file=said)
# Whatever it is asked, so many times in a row, once there is something to lose.
counts = json.load(open(f"{here}/refusals"))
if os.path.exists(f"{here}/applied") and counts["of"].get(str(words), 0) < counts["each"]:
    counts["of"][str(words)] = counts["of"].get(str(words), 0) + 1
    json.dump(counts, open(f"{here}/refusals", "w"))
    sys.exit(counts["words"])
if "apply" in words:
    shutil.copytree(words[-1], f"{here}/applied", dirs_exist_ok=True)
elif "logs" in words:
    sys.stdout.write(open(f"{here}/log", newline="").read())
elif "get" in words:
    print(json.dumps(json.load(open(f"{here}/state"))["job" if "job" in words else "pods"]))
"""


def check(condition, message):
    if not condition:
        sys.exit(f"kubernetes_test: {message}")


def run(folder, state, log, *options, refusals=0, words=AWAY[0]):
    """(exit code, standard error, what kubectl was told)"""
    (folder / "refusals").write_text(json.dumps({"each": refusals, "of": {}, "words": words}))
    for left in ("applied", "out"):
        shutil.rmtree(folder / left, ignore_errors=True)
    (folder / "said").write_text("")
    (folder / "state").write_text(json.dumps(state))
    (folder / "log").write_bytes(log.encode())
    done = subprocess.run([HERE / "kubernetes", "--kubectl", str(folder / "kubectl"), "--out", folder / "out", *options],
                          capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    return done.returncode, done.stderr, (folder / "said").read_text()


def state_of(kind, exit_code=None):
    ended = {} if exit_code is None else {"terminated": {"exitCode": exit_code}}
    return {"job": {"status": {"conditions": [{"type": kind, "status": "True"}]}},
            "pods": {"items": [{"status": {"containerStatuses": [{"state": ended}]}}]}}


def log_of(folder):
    reports = folder / "reports"
    reports.mkdir(exist_ok=True)
    for name, text in TEXTS.items():
        (reports / name).write_bytes(text.encode())
    log = io.StringIO()
    log.write("first\n")
    report_log.write(reports, log)
    return log.getvalue()


def check_runs(folder):
    kubectl = folder / "kubectl"
    kubectl.write_text(KUBECTL)
    kubectl.chmod(0o755)
    scenario = folder / "mine.toml"
    scenario.write_text("[load]\nusers = 2\n")
    for code, kind in ((0, "Complete"), (1, "Failed"), (6, "Failed")):
        ended, said, told = run(folder, state_of(kind, code), log_of(folder), "--image", "here/other:7", "--workers", "5",
                                "--scenario", str(scenario))
        check(ended == code, f"the master ended with {code}, and it with {ended}: {said}")
        check("delete --kustomize" in told, "what was applied is still there")
        for name, text in TEXTS.items():
            check((folder / "out" / name).read_bytes() == text.encode(), f"{name} is another")
    applied = json.loads((folder / "applied/kustomization.yaml").read_text())
    check(applied["images"] == [{"name": "registry.example.com/kerf/kerf-loadtest", "newName": "here/other", "newTag": "7"}],
          f"the image is {applied['images']}")
    check("--master=5" in applied["patches"][0]["patch"] and applied["replicas"][0]["count"] == 5, "there are not 5 workers")
    check((folder / "applied/scenario.toml").read_text() == scenario.read_text(), "the scenario is another")

    ended, said, told = run(folder, state_of("Failed"), "no such image\n", "--keep")
    check(ended == 5 and "ended before its verdict" in said, f"without a verdict: exit code {ended}: {said}")
    check("delete --kustomize" not in told, "--keep keeps nothing")
    ended, said, told = run(folder, state_of("Complete", 0), log_of(folder), refusals=2)
    check(ended == 0 and said.count("trying again") == 8, f"Kubernetes was away: exit code {ended}: {said}")
    check(told.count("delete --kustomize") == 3, "what was applied is still there")
    check((folder / "out/report.html").exists(), "the reports are lost")
    ended, said, _ = run(folder, state_of("Complete", 0), log_of(folder), "--patience-s", "0.2", refusals=1000)
    check(ended == 5 and AWAY[0] in said, f"Kubernetes is away for good: exit code {ended}: {said}")
    for words in AWAY[1:]:
        ended, said, _ = run(folder, state_of("Complete", 0), log_of(folder), refusals=1, words=words)
        check(ended == 0 and said.count("trying again") == 4, f"{words}: exit code {ended}: {said}")
    for words in REFUSED:
        ended, said, _ = run(folder, state_of("Complete", 0), log_of(folder), refusals=1000, words=words)
        check(ended == 5 and words in said and "trying again" not in said, f"{words}: exit code {ended}: {said}")
    ended, said, _ = run(folder, state_of("Failed", 5), "no front answers\n")
    check(ended == 5 and "no reports" in said, f"a log without reports: exit code {ended}: {said}")


def check_hostile_logs(folder):
    def packed(texts):
        data = base64.b64encode(zlib.compress(json.dumps(texts).encode())).decode()
        return f"{report_log.BEGIN}\n{data}\n{report_log.END}\n"

    whole = packed({"a.csv": "1"})
    check(report_log.read(f"before\n{whole}after\n") == ({"a.csv": "1"}, "before\nafter\n"), "a whole log")
    for what, log in (("cut off", whole[:-20]), ("damaged", whole.replace("\n", "\n!", 1)),
                      ("a path", packed({"../a": "1"})), ("an absolute path", packed({"/tmp/a": "1"})),
                      ("a hidden name", packed({".a": "1"})), ("no text", packed({"a": 1})), ("a list", packed(["a"])),
                      ("too much", packed({"a": "0" * (report_log.MAX_BYTES + 1)}))):
        try:
            report_log.save(log, folder / "never")
        except ValueError:
            continue
        check(False, f"reports are taken from a log that is {what}")
    check(not os.path.lexists(folder / "never"), "something was written")


def main():
    with tempfile.TemporaryDirectory(prefix="kerf-loadtest-") as name:
        check_runs(pathlib.Path(name))
        check_hostile_logs(pathlib.Path(name))
    print("kubernetes_test: verdicts, reports and hostile logs are as they should be")


if __name__ == "__main__":
    main()
