#!/usr/bin/env python3
"""Puts load on kerfd: many agents at once over the real protocol, every answer checked.

A scenario is a file of settings, scenarios/NAME.toml. Without an address a kerfd with an embedded index,
or the cluster that the scenario describes, is started for the run and stopped after it. The reports are left in the folder that is named at the end.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT / "tools/python"))

import cluster
import corpora
import kerfd
import processes
import report_log
import service_levels
import settings
import shapes
import timeline

SLO_KEY = "KERF_LOAD_SLO"
TIMELINE_KEY = "KERF_LOAD_TIMELINE"
EXIT_UNAVAILABLE = 5
CONNECT_TIMEOUT_S = 10
MASTER_PORT = 5557
# For the workers that a master waits for: their images may have to be fetched.
WORKERS_WAIT_S = 600

EPILOG = """What follows -- is for Locust itself.

Exit codes: 0 all service levels are reached; 1 one is missed; 2 usage; 5 no kerfd answers;
6 a wrong answer.

Examples:
  loadtest/run laptop
  loadtest/run laptop --shape spike --users 40 --time 120
  loadtest/run laptop --set corpus.trees='["/usr/include"]' --set corpus.edit_pattern=insert
  loadtest/run laptop --processes 2 --address 127.0.0.1:7461 --address 127.0.0.1:7462
  loadtest/run laptop --address HOST:7461 --master 2            and on two other machines
  loadtest/run laptop --address HOST:7461 --worker MASTER:5557
  loadtest/run cluster                             fronts, workers, a Redis Cluster; all restarted under load
  loadtest/run cluster --set cluster.roll_at_s=0 --set cluster.workers=5
  tools/cluster up && loadtest/run cluster --cluster out/cluster"""


def parse(arguments):
    scenarios = sorted(path.stem for path in (HERE / "scenarios").glob("*.toml"))
    parser = argparse.ArgumentParser(prog="loadtest/run", description=__doc__, epilog=EPILOG,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenario", help=f"{', '.join(scenarios)}, or a file of settings")
    parser.add_argument("--address", action="append", default=[], metavar="ADDRESS",
                        help="HOST:PORT or unix:PATH of a kerfd that runs; several share an index; may be repeated")
    parser.add_argument("--cluster", metavar="DIR", help="the fronts of the tools/cluster that runs in this folder")
    parser.add_argument("--kerfd", default=str(ROOT / "out" / "kerfd"), help="the one to start (default: out/kerfd)")
    parser.add_argument("--shape", choices=shapes.ALL, help="how users come and go")
    parser.add_argument("--users", type=int, metavar="N", help="at the highest")
    parser.add_argument("--time", type=float, metavar="SECONDS")
    parser.add_argument("--processes", type=int, metavar="N", help="of Locust: one has one core")
    parser.add_argument("--master", type=int, metavar="N",
                        help=f"leads N workers or more, which come to its port {MASTER_PORT}, and has no users itself")
    parser.add_argument("--worker", metavar="MASTER:PORT", help="has a share of the users of that master, and no verdict")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE",
                        help="one setting (settings.py has all); may be repeated")
    parser.add_argument("--slo", default=str(HERE / "slo.toml"), help="the service levels (default: loadtest/slo.toml)")
    parser.add_argument("--out", help="folder of the reports (default: a new one in out/loadtest)")
    parser.add_argument("--reports-to-log", action="store_true",
                        help="prints the reports at the end, for loadtest/report_log.py, where nobody reaches the folder")
    parser.add_argument("--print-settings", action="store_true", help="as JSON, with Locust's command line, and no more")
    own, locust_arguments = arguments, []
    if "--" in arguments:
        place = arguments.index("--")
        own, locust_arguments = arguments[:place], arguments[place + 1:]
    options = parser.parse_args(own)
    options.locust = locust_arguments
    return parser, options


def effective_settings(options):
    path = HERE / "scenarios" / f"{options.scenario}.toml"
    if not path.is_file():
        path = pathlib.Path(options.scenario)
    result = settings.Settings()
    result.set_all(tomllib.loads(path.read_text()))
    for key, value in [("shape", options.shape), ("users", options.users), ("time_s", options.time),
                       ("processes", options.processes)]:
        if value is not None:
            result.set("load", key, value)
    for text in options.set:
        result.set_text(text)
    if options.address and options.cluster:
        raise ValueError("--address and --cluster: either")
    if options.master is not None and options.worker is not None:
        raise ValueError("--master and --worker: either")
    if options.master is not None and options.master < 1:
        raise ValueError("--master: want the number of its workers, 1 or more")
    if options.address:
        result.target.addresses = options.address
    result.target.run = result.target.run or secrets.token_hex(4)
    if result.load.shape not in shapes.ALL:
        raise ValueError(f"load.shape: want one of {', '.join(shapes.ALL)}")
    if result.corpus.edit_pattern not in corpora.EDIT_PATTERNS:
        raise ValueError(f"corpus.edit_pattern: want one of {', '.join(corpora.EDIT_PATTERNS)}")
    if min(result.load.users, result.load.processes) < 1 or result.load.time_s <= 0:
        raise ValueError("load: users, processes and time_s must be above 0")
    is_distributed = options.master is not None or options.worker is not None
    if is_distributed and not result.target.addresses:
        raise ValueError("--master and --worker: want the --address of a kerfd that all of them reach")
    if is_distributed and result.load.processes > 1:
        raise ValueError("--master and --worker: have one process each: start more workers")
    service_levels.read(options.slo)
    return result


def unreachable(addresses):
    """Why the first of them that takes no connection does not; None if all do."""
    for address in addresses:
        try:
            connect(address).close()
        except (OSError, ValueError) as error:
            return f"{address}: {error}: start kerfd, or mend --address"
    return None


def connect(address):
    """A plain connection: gRPC would start threads here, which a program that starts others must not have."""
    if address.startswith("unix:"):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(address.removeprefix("unix:"))
        return connection
    host, _, port = address.rpartition(":")
    return socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_TIMEOUT_S)


def locust_command(options, effective, out):
    command = [sys.executable, "-m", "locust", "--locustfile", str(HERE / "locustfile.py"), "--headless",
               "--host", ",".join(effective.target.addresses), "--kerf-run", effective.target.run]
    if options.worker is not None:
        host, _, port = options.worker.rpartition(":")
        return [*command, "--worker", "--master-host", host.strip("[]"), "--master-port", port, *options.locust]
    command += ["--only-summary", "--html", str(out / "report.html"), "--csv", str(out / "report")]
    if options.master is not None:
        command += ["--master", "--master-bind-port", str(MASTER_PORT), "--expect-workers", str(options.master),
                    "--expect-workers-max-wait", str(WORKERS_WAIT_S)]
    if effective.load.processes > 1:
        # Its own processes talk to each other here, and nobody else to them.
        port = str(processes.free_port())
        command += ["--processes", str(effective.load.processes), "--master-bind-host", processes.HOST,
                    "--master-bind-port", port, "--master-host", processes.HOST, "--master-port", port]
    return [*command, *options.locust]


def locust(options, effective, out):
    """Runs it; its exit code."""
    command = locust_command(options, effective, out)
    environment = os.environ | effective.to_environment() | {
        SLO_KEY: os.path.realpath(options.slo), TIMELINE_KEY: str(out / "timeline.csv"), "GRPC_ENABLE_FORK_SUPPORT": "0"}
    return subprocess.run(command, env=environment, check=False).returncode


def start(options, effective, out, stack):
    """What there is no address for; the cluster, if it is one. Raises OSError with what is wrong."""
    if options.cluster:
        found = cluster.Cluster(options.cluster)
        effective.target.addresses = found.fronts()
        return found
    if effective.target.addresses:
        return None
    if not os.access(options.kerfd, os.X_OK):
        raise OSError(f"no {options.kerfd}: run tools/build, or name one with --kerfd")
    work = stack.enter_context(tempfile.TemporaryDirectory(prefix="kerf-loadtest-", dir="/var/tmp"))
    if effective.cluster.workers:
        own = stack.enter_context(cluster.own(effective.cluster, options.kerfd, work, out))
        effective.target.addresses = own.fronts()
        return own
    effective.target.addresses = [stack.enter_context(kerfd.Kerfd(options.kerfd, work))]
    return None


def draw_timeline(out, absences):
    """Where Locust ended before its end, there is none."""
    path = out / "timeline.csv"
    if path.is_file() and (rows := timeline.read(path)):
        path.with_suffix(".html").write_text(timeline.draw(rows, absences), encoding="utf-8")


def main():
    parser, options = parse(sys.argv[1:])
    try:
        effective = effective_settings(options)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    out = pathlib.Path(options.out or ROOT / "out" / "loadtest" / time.strftime("%Y-%m-%d-%H%M%S"))
    if options.print_settings:
        print(json.dumps({**dataclasses.asdict(effective), "locust": locust_command(options, effective, out)}))
        return 0
    out.mkdir(parents=True, exist_ok=True)
    # As Ctrl-C: what was started is ended. As a container's first process it would not even end itself.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with contextlib.ExitStack() as stack:
        try:
            started = start(options, effective, out, stack)
        except OSError as error:
            print(f"loadtest/run: {error}", file=sys.stderr)
            return EXIT_UNAVAILABLE
        if problem := unreachable(effective.target.addresses):
            print(f"loadtest/run: {problem}", file=sys.stderr)
            return EXIT_UNAVAILABLE
        roll = None
        if started and effective.cluster.roll_at_s > 0:
            roll = cluster.Roll(started, effective.cluster.roll_at_s)
        try:
            code = locust(options, effective, out)
        finally:
            is_rolled = roll is None or roll.end()
    if code == 0 and not is_rolled:
        code = service_levels.EXIT_MISSED
    if options.worker is not None:
        return code
    draw_timeline(out, roll.absences if roll else [])
    print(f"loadtest/run: the reports are in {out}")
    if options.reports_to_log:
        report_log.write(out, sys.stdout)
    return code


if __name__ == "__main__":
    sys.exit(main())
