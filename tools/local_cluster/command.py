"""tools/cluster: fronts, workers and a Redis Cluster on loopback, to try a cluster out, and to test it.

  tools/cluster up                               two fronts, three workers, three masters with a replica each
  tools/cluster up --workers 5 --fronts 1 --dir /tmp/mine
  tools/cluster up --tls                         everybody speaks TLS and shows a certificate, Redis too
  eval "$(tools/cluster env)"                    what kerf has to know to reach it: address, certificates
  tools/cluster status                           who is where, and how each is
  tools/cluster status --json
  tools/cluster kill worker-2                    it dies at once (SIGKILL)
  tools/cluster kill redis-1 --signal STOP       it stops answering; CONT lets it go on, TERM asks it to end
  tools/cluster start worker-2                   what was killed comes back, at the same address
  tools/cluster roll                             restarts all workers, then all fronts, one after another,
                                                 each by SIGTERM and once all others serve
  tools/cluster roll --workers
  tools/cluster down                             ends what `up` has started and removes its files

Then, for example:

  out/kerf backup ~/documents --store /tmp/store --server $(tools/cluster front)
  loadtest/run cluster --cluster out/cluster

Several clusters live side by side, each in a folder of its own (--dir, by default out/cluster), with an
address of loopback of its own. Logs are there, NAME.log; with --tls, certificates in tls/. Redis asks for the password in
redis.password there: workers come as kerfd, with the rights that it has on Kubernetes, redis-cli as who may do everything.

Exit codes: 0 ok; 1 failure, and of `status` also that not all are serving; 2 usage.
"""

import argparse
import json
import os
import pathlib
import shlex
import signal
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/python"))

import local_cluster
from local_cluster import Cluster
from processes import Failed

SIGNALS = {"KILL": signal.SIGKILL, "STOP": signal.SIGSTOP, "CONT": signal.SIGCONT, "TERM": signal.SIGTERM}
# Of the folder, while nothing of a cluster is in it.
OWN_FILES = {local_cluster.LOCK}


def up(options):
    folder = options.dir
    for program in (options.kerfd, options.kerf):
        if not os.access(program, os.X_OK):
            raise Failed(f"no {program}: run tools/build, or name one with --kerfd and --kerf")
    folder.mkdir(parents=True, exist_ok=True)
    with local_cluster.locked(folder):
        if (folder / local_cluster.STATE).exists():
            cluster = Cluster.load(folder)
            expect_same(cluster, options)
        else:
            if strange := {entry.name for entry in folder.iterdir()} - OWN_FILES:
                raise Failed(f"{folder} is no cluster's, and not empty ({sorted(strange)[0]}): name a folder that "
                             "is new or empty")
            settings = {"host": local_cluster.own_host(), "drain_ms": options.drain_ms, "kerfd": str(options.kerfd),
                        "kerf": str(options.kerf), "tls": options.tls}
            cluster = Cluster(folder, settings, [])
            cluster.start(options.workers, options.fronts)
    print_status(cluster.status())


def expect_same(cluster, options):
    """`up` of one that is up changes nothing."""
    wanted = {"worker": options.workers, "front": options.fronts}
    for part, count in wanted.items():
        if len(cluster.of(part)) != count:
            raise Failed(f"{cluster.folder} has a cluster of {len(cluster.of(part))} {part}s: take it `down` first, "
                         "or name another folder with --dir")
    if bool(cluster.options.get("tls")) != options.tls:
        raise Failed(f"{cluster.folder} has a cluster {'with' if cluster.tls() else 'without'} TLS: take it `down` first, or "
                     "name another folder with --dir")
    if down := [process.name for process in cluster.processes if not process.is_alive()]:
        raise Failed(f"{cluster.folder} has a cluster of which {', '.join(down)} is down: `start` it, or take the "
                     "cluster `down`")


def down(options):
    if not (options.dir / local_cluster.STATE).exists():
        return
    with local_cluster.locked(options.dir):
        Cluster.load(options.dir).end(options.now)


def status(options):
    found = Cluster.load(options.dir).status()
    if options.json:
        print(json.dumps(found))
    else:
        print_status(found)
    return 0 if found["healthy"] else 1


def print_status(found):
    print(f"{'name':<10} {'address':<23} {'pid':>8}  state")
    for row in found["fronts"] + found["workers"] + found["redis"]:
        role = row.get("role", "")
        if row.get("master"):
            role += f" of {row['master']}"
        print(f"{row['name']:<10} {row['address']:<23} {row['pid'] or '-':>8}  {row['state']:<9} {role}".rstrip())


def env(options):
    """For a shell."""
    cluster = Cluster.load(options.dir)
    variables = {"KERF_SERVER": ",".join(process.address for process in cluster.of("front"))}
    if cluster.tls():
        before = local_cluster.agent_environment(cluster.tls())
        variables |= {name: before[name] for name in ("KERF_TLS_CA", "KERF_TLS_CERT", "KERF_TLS_KEY")}
    for name, value in variables.items():
        print(f"export {name}={shlex.quote(value)}")


def front(options):
    """One that is alive, for --server."""
    for process in Cluster.load(options.dir).of("front"):
        if process.is_alive():
            print(process.address)
            return
    raise Failed("no front is alive; `start` one")


def kill(options):
    Cluster.load(options.dir).signal(options.name, SIGNALS[options.signal])


def start(options):
    with local_cluster.locked(options.dir):
        Cluster.load(options.dir).start_one(options.name)


def roll(options):
    # Workers first: fronts know what to do without one of them.
    parts = [part for part in ("worker", "front") if part in (options.parts or ("worker", "front"))]
    with local_cluster.locked(options.dir):
        Cluster.load(options.dir).roll(parts, lambda text: print(text, flush=True))


def count(text):
    number = int(text)
    if not 1 <= number <= 100:
        raise ValueError
    return number


def absolute(text):
    return pathlib.Path(text).absolute()


def parse():
    parser = argparse.ArgumentParser(prog="tools/cluster", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    folder = argparse.ArgumentParser(add_help=False)
    folder.add_argument("--dir", type=absolute, default=ROOT / "out" / "cluster",
                        help="where the cluster keeps its files (default: out/cluster)")
    verbs = parser.add_subparsers(required=True, metavar="VERB")

    def add(action, summary, name=None):
        verb = verbs.add_parser(name or action.__name__, help=summary, description=summary, parents=[folder])
        verb.set_defaults(action=action)
        return verb

    verb = add(up, "starts a cluster, unless it is up")
    verb.add_argument("--workers", type=count, default=3, metavar="N", help="(default: 3)")
    verb.add_argument("--fronts", type=count, default=2, metavar="M", help="(default: 2)")
    verb.add_argument("--tls", action="store_true", help="over TLS, with certificates of a CA of its own, everywhere")
    verb.add_argument("--drain-ms", type=int, default=10_000, metavar="MS",
                      help="how long one that stops still takes commits (default: 10000)")
    verb.add_argument("--kerfd", type=absolute, default=ROOT / "out" / "kerfd", help="(default: out/kerfd)")
    verb.add_argument("--kerf", type=absolute, default=ROOT / "out" / "kerf",
                      help="asks the others how they are (default: out/kerf)")
    add(down, "ends it and removes its files").add_argument(
        "--now", action="store_true", help="by SIGKILL, without waiting for streams")
    add(status, "how each process is").add_argument("--json", action="store_true", help="one JSON object")
    add(front, "prints the address of a front that is alive")
    add(env, "prints what kerf has to know to reach it, for a shell")
    verb = add(kill, "sends a process a signal")
    verb.add_argument("name", help="as `status` prints it")
    verb.add_argument("--signal", choices=SIGNALS, default="KILL", help="(default: KILL)")
    add(start, "starts a process that has ended").add_argument("name", help="as `status` prints it")
    verb = add(roll, "restarts workers and fronts one after another")
    verb.add_argument("--workers", dest="parts", action="append_const", const="worker", help="these only")
    verb.add_argument("--fronts", dest="parts", action="append_const", const="front", help="these only")
    return parser.parse_args()


def main():
    options = parse()
    # As Ctrl-C: what is begun is taken back.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        return options.action(options) or 0
    except Failed as error:
        print(f"tools/cluster: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
