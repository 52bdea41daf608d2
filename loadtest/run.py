#!/usr/bin/env python3
"""Puts load on kerfd: many agents at once over the real protocol, every answer checked.

A scenario is a file of settings, scenarios/NAME.toml. Without an address a kerfd with an embedded index,
or the cluster that the scenario describes, is started for the run and stopped after it. The reports are left in the folder that is named at the end.
"""

import argparse
import contextlib
import os
import pathlib
import secrets
import socket
import subprocess
import sys
import tempfile
import time
import tomllib

import cluster
import corpora
import kerfd
import service_levels
import settings
import shapes

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
SLO_KEY = "KERF_LOAD_SLO"
EXIT_UNAVAILABLE = 5
CONNECT_TIMEOUT_S = 10
LOOPBACK = "127.0.0.1"

EPILOG = """What follows -- is for Locust, as -- --master --expect-workers 2, or -- --worker, which want the same
addresses and the same --set target.run=NAME.

Exit codes: 0 all service levels are reached; 1 one is missed; 2 usage; 5 no kerfd answers;
6 a wrong answer.

Examples:
  loadtest/run laptop
  loadtest/run laptop --shape spike --users 40 --time 120
  loadtest/run laptop --set corpus.trees='["/usr/include"]' --set corpus.edit_pattern=insert
  loadtest/run laptop --processes 2 --address 127.0.0.1:7461 --address 127.0.0.1:7462
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
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE",
                        help="one setting (settings.py has all); may be repeated")
    parser.add_argument("--slo", default=str(HERE / "slo.toml"), help="the service levels (default: loadtest/slo.toml)")
    parser.add_argument("--out", help="folder of the reports (default: a new one in out/loadtest)")
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
    if options.address:
        result.target.addresses = options.address
    result.target.run = result.target.run or secrets.token_hex(4)
    if result.load.shape not in shapes.ALL:
        raise ValueError(f"load.shape: want one of {', '.join(shapes.ALL)}")
    if result.corpus.edit_pattern not in corpora.EDIT_PATTERNS:
        raise ValueError(f"corpus.edit_pattern: want one of {', '.join(corpora.EDIT_PATTERNS)}")
    if min(result.load.users, result.load.processes) < 1 or result.load.time_s <= 0:
        raise ValueError("load: users, processes and time_s must be above 0")
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


def free_port():
    """Of loopback, now: Locust cannot be told to choose one."""
    with socket.create_server((LOOPBACK, 0)) as listener:
        return listener.getsockname()[1]


def locust(options, effective, out):
    """Runs it; its exit code."""
    command = [sys.executable, "-m", "locust", "--locustfile", str(HERE / "locustfile.py"), "--headless",
               "--only-summary", "--html", str(out / "report.html"), "--csv", str(out / "report"),
               "--host", ",".join(effective.target.addresses), *options.locust]
    if effective.load.processes > 1:
        command += ["--processes", str(effective.load.processes)]
        if not {"--master", "--worker"} & set(options.locust):
            # Its own processes talk to each other here, and nobody else to them.
            port = str(free_port())
            command += ["--master-bind-host", LOOPBACK, "--master-bind-port", port,
                        "--master-host", LOOPBACK, "--master-port", port]
    environment = os.environ | effective.to_environment() | {
        SLO_KEY: os.path.realpath(options.slo), "GRPC_ENABLE_FORK_SUPPORT": "0"}
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


def main():
    parser, options = parse(sys.argv[1:])
    try:
        effective = effective_settings(options)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    out = pathlib.Path(options.out or ROOT / "out" / "loadtest" / time.strftime("%Y-%m-%d-%H%M%S"))
    out.mkdir(parents=True, exist_ok=True)
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
    print(f"loadtest/run: the reports are in {out}")
    return code


if __name__ == "__main__":
    sys.exit(main())
