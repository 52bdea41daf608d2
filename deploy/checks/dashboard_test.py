#!/usr/bin/env python3
"""The dashboard of components/monitoring on a real Prometheus (Debian's package), which scrapes a front, a worker and what
they show after backups: each panel has data, save those that must have none here, and each alert's rule is taken and quiet.

usage: dashboard_test.py [FOLDER WITH kerf AND kerfd]   with the Python of deploy/check
"""

import contextlib
import http
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

import yaml

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tools/python"))

from processes import free_port, running, wait_until

MONITORING = HERE.parent / "components/monitoring"
PATIENCE_S = 30
POLL_S = 0.2
# Of a kerfd without GPUs, and without TLS.
WITHOUT_DATA = {"GPUs", "Bytes that GPUs cut", "Time left of certificates"}
# What Grafana puts in; the real ones are longer than this test.
VALUES = {"$__rate_interval": "10s", "$namespace": "kerf"}


def fail(message):
    sys.exit(f"dashboard_test: {message}")


def started(folder, name, *words):
    return running(words, folder / f"{name}.log", PATIENCE_S)


def wait(condition, what, process):
    return wait_until(condition, PATIENCE_S, f"dashboard_test: {what}", poll_s=POLL_S, processes=[process], error=SystemExit)


def first_line(path):
    """Of a file that a kerfd writes when it serves."""
    return path.read_text().split()[0] if path.exists() and path.read_text().strip() else ""


def ask(port, path, **parameters):
    """What Prometheus answers; None while it does not, or is still starting: it listens before it opens its store."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}", timeout=5) as answer:
            return json.load(answer)["data"]
    except urllib.error.HTTPError as error:
        if error.code == http.HTTPStatus.SERVICE_UNAVAILABLE:
            return None
        fail(f"Prometheus refuses {parameters}: {error.read().decode(errors='replace')}")
    except OSError:
        return None


def write_settings(folder, targets):
    """As the operator would make them of ServiceMonitors and PrometheusRules, but with a scrape each half second."""
    groups = yaml.safe_load((MONITORING / "alerts.yaml").read_text(encoding="utf-8"))["spec"]["groups"]
    (folder / "rules.yaml").write_text(json.dumps({"groups": groups}))
    (folder / "prometheus.yaml").write_text(json.dumps({
        "global": {"scrape_interval": "500ms", "scrape_timeout": "400ms", "evaluation_interval": "500ms"},
        "rule_files": ["rules.yaml"],
        "scrape_configs": [{"job_name": "kerf", "static_configs": [
            {"targets": [target], "labels": {"namespace": "kerf", "pod": pod}} for pod, target in targets.items()]}]}))


def write_files(folder):
    (folder / "source").mkdir()
    for number in range(6):
        (folder / "source" / f"file-{number}").write_bytes(os.urandom(1 << 20))


def back_up(programs, folder, address):
    """All files, as if the agent knew none of them."""
    subprocess.run([programs / "kerf", "backup", folder / "source", "--store", folder / "store", "--server", address, "--quiet", "--force"],
                   check=True, timeout=PATIENCE_S)


def panels():
    for panel in json.loads((MONITORING / "kerf.json").read_text(encoding="utf-8"))["panels"]:
        expressions = [target["expr"] for target in panel.get("targets", [])]
        for name, value in VALUES.items():
            expressions = [expression.replace(name, value) for expression in expressions]
        yield panel["title"], expressions


def has_value(result):
    return any(sample["value"][1] != "NaN" for sample in result)


def without_data(port):
    """Title -> expression."""
    return {title: expression for title, expressions in panels() for expression in expressions
            if not has_value(ask(port, "query", query=expression)["result"])}


def run(programs, folder, stack):
    redis = folder / "redis"
    tool = ROOT / "tools/redis-cluster"
    seed = subprocess.run([tool, "--dir", redis, "up", "--masters", "1", "--replicas", "0", "--single"], capture_output=True, text=True,
                          check=True, timeout=2 * PATIENCE_S).stdout.strip()
    stack.callback(subprocess.run, [tool, "--dir", redis, "down"], check=True, timeout=PATIENCE_S)
    addresses, metrics = {}, {}
    for role, more in (("worker", ["--redis", seed, "--redis-replicas", "0", "--gpu", "off"]), ("front", [])):
        metrics[f"kerf-{role}-0"] = f"127.0.0.1:{free_port()}"
        more = more or ["--workers", addresses["worker"]]
        process = stack.enter_context(started(
            folder, role, programs / "kerfd", "--role", role, "--listen", "127.0.0.1:0", "--ready-file", folder / f"{role}.ready",
            "--metrics-listen", metrics[f"kerf-{role}-0"], *more))
        addresses[role] = wait(lambda role=role: first_line(folder / f"{role}.ready"), f"the {role}", process)
    write_settings(folder, metrics)
    port = free_port()
    prometheus = stack.enter_context(started(
        folder, "prometheus", "prometheus", f"--config.file={folder}/prometheus.yaml", f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{port}"))
    wait(lambda: (ask(port, "query", query="sum(up) == 2") or {}).get("result"), "Prometheus and both kerfd", prometheus)
    write_files(folder)
    deadline = time.monotonic() + PATIENCE_S
    while True:
        back_up(programs, folder, addresses["front"])
        empty = without_data(port)
        if set(empty) <= WITHOUT_DATA or time.monotonic() > deadline:
            break
        time.sleep(POLL_S)
    wrong, unexpected = {title: one for title, one in empty.items() if title not in WITHOUT_DATA}, WITHOUT_DATA - set(empty)
    for title, expression in wrong.items():
        print(f"dashboard_test: the panel '{title}' has no data: {expression}", file=sys.stderr)
    for title in sorted(unexpected):
        print(f"dashboard_test: the panel '{title}' has data here, so it is none of WITHOUT_DATA", file=sys.stderr)
    bad_rules = [rule for group in ask(port, "rules")["groups"] for rule in group["rules"] if rule["health"] != "ok" or rule["state"] != "inactive"]
    for rule in bad_rules:
        print(f"dashboard_test: the alert {rule['name']} is {rule['state']}, {rule['health']} {rule.get('lastError', '')}", file=sys.stderr)
    print(f"dashboard_test: {len(list(panels()))} panels, {len(wrong) + len(unexpected) + len(bad_rules)} findings")
    return 1 if wrong or unexpected or bad_rules else 0


def main():
    programs = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "out").resolve()
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kerf-dashboard-")))
        return run(programs, folder, stack)


if __name__ == "__main__":
    sys.exit(main())
