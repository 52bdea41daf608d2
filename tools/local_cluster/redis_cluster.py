"""tools/redis-cluster: a real Redis Cluster on loopback, for tests and for trying kerf out.

  tools/redis-cluster up                          three masters with a replica each
  tools/redis-cluster up --masters 1 --replicas 0 --single    one Redis, no cluster
  tools/redis-cluster up --tls FOLDER             over TLS alone (--help of up)
  tools/redis-cluster status [--json]
  tools/redis-cluster kill 2                      node 2 dies at once (SIGKILL)
  tools/redis-cluster pause 2 | resume 2          it stops answering, and goes on
  tools/redis-cluster start 2                     a node that was killed comes back
  tools/redis-cluster failover 2                  a replica takes over from master 2 (or from the
                                                  master of replica 2)
  tools/redis-cluster move 100 2 --count 50       slots 100 to 149 go to node 2, with what they hold
  tools/redis-cluster down                        ends all nodes and removes their files

The nodes are Debian's redis-server, on free ports of 127.0.0.1, in one folder (--dir, by default
out/redis-cluster); clusters in different folders do not know of each other. Beside the default user, who
may do everything, they have kerfd, with the rights that it has where it is deployed and the same password,
or any.
"""

import argparse
import concurrent.futures
import contextlib
import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

# Not resolved: a test has this file and others at the same places, as links.
ROOT = pathlib.Path(__file__).absolute().parents[2]
sys.path.insert(0, str(ROOT / "tools/python"))

import processes
from processes import HOST, Failed, free_ports, wait_until

STATE = "cluster.json"
USERS = ROOT / "deploy/components/redis/users"
START_TIMEOUT_S = 20
CLUSTER_TIMEOUT_S = 60
MEET_AGAIN_S = 3
FAILOVER_TIMEOUT_S = 30
FAILOVER_AGAIN_S = 6
COMMAND_TIMEOUT_S = 10
SLOT_COUNT = 16384
MIGRATE_TIMEOUT_MS = 5000
# A port that was free may be taken before Redis has it.
START_ATTEMPTS = 5
START_AGAIN_S = 1


def fail(message):
    sys.exit(f"tools/redis-cluster: {message}")


def environment(password):
    """For redis-cli: a password belongs neither into arguments nor onto the terminal."""
    return dict(os.environ, REDISCLI_AUTH=password) if password else None


def cli_tls(folder):
    """redis-cli's arguments; it looks at no names."""
    if not folder:
        return []
    return ["--tls", "--cert", f"{folder}/redis.pem", "--key", f"{folder}/redis.key",
            "--cacert", f"{folder}/ca.pem"]


def user_kerfd(password):
    """A line of redis.conf."""
    rules = next(line for line in USERS.read_text(encoding="utf-8").splitlines() if line.startswith("kerfd "))
    name, rights = rules.split(" ", 1)
    secret = f"#{hashlib.sha256(password.encode()).hexdigest()}" if password else "nopass"
    return f"user {name} on {secret} {rights}"


def read_password(path):
    if path is None:
        return ""
    try:
        password = path.read_text(encoding="utf-8").strip()
    except OSError as error:
        fail(f"--password-file {path}: {error.strerror}")
    if not password or any(letter in password for letter in '"\\\n'):
        fail(f"--password-file {path}: want one line without quotes and backslashes")
    return password


class Node:
    """One redis-server. Its folder tells it apart from every other process."""

    def __init__(self, folder, number, port, bus_port, password="", tls=None):
        self.number, self.port, self.bus_port = number, port, bus_port
        self.folder = folder / f"node{number}"
        self.password = password
        # The folder with its certificate, key and CA; None: all is in the clear.
        self.tls = tls

    def write_config(self, options):
        self.folder.mkdir(parents=True, exist_ok=True)
        ports = [f"port {self.port}"]
        if self.tls:
            ports = ["port 0", f"tls-port {self.port}", f"tls-cert-file {self.tls}/redis.pem",
                     f"tls-key-file {self.tls}/redis.key", f"tls-ca-cert-file {self.tls}/ca.pem",
                     "tls-replication yes", "tls-cluster yes", "tls-auth-clients yes"]
        lines = [f"bind {HOST}", *ports, f"dir {self.folder}",
                 f"pidfile {self.folder}/pid", f"logfile {self.folder}/log", "daemonize yes",
                 'save ""', f"appendonly {'yes' if options['appendonly'] else 'no'}",
                 f"appendfsync {options['appendfsync']}", "maxmemory-policy noeviction", "protected-mode yes",
                 # Replicas copy without a wait for others that may want the same.
                 "repl-diskless-sync yes", "repl-diskless-sync-delay 0"]
        if not options["single"]:
            lines += ["cluster-enabled yes", f"cluster-port {self.bus_port}",
                      f"cluster-config-file {self.folder}/nodes.conf",
                      f"cluster-node-timeout {options['node_timeout_ms']}"]
        if self.password:
            lines += [f'requirepass "{self.password}"', f'masterauth "{self.password}"']
        lines.append(user_kerfd(self.password))
        config = self.folder / "redis.conf"
        config.touch(mode=0o600)
        config.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def pid(self):
        """None unless it is this node's process and it lives."""
        try:
            pid = int((self.folder / "pid").read_text(encoding="ascii"))
        except (OSError, ValueError):
            return None
        command, state = processes.command_line(pid), processes.state(pid)
        is_own = "redis-server" in command and f":{self.port}" in command
        return pid if is_own and state and state[0] != "Z" else None

    def is_paused(self):
        """By SIGSTOP: it would be waited for in vain."""
        state = processes.state(self.pid())
        return state is not None and state[0] == "T"

    def start(self):
        """Whether it answers."""
        if self.pid() is not None:
            return True
        logged = len(self.log())
        done = subprocess.run(["redis-server", str(self.folder / "redis.conf")],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return False

        def outcome():
            if self.call("PING") == "PONG":
                return "it answers"
            has_no_port = self.pid() is None and "Could not create server TCP" in self.log()[logged:]
            return "it has no port" if has_no_port else None

        try:
            return wait_until(outcome, START_TIMEOUT_S, "the start") == "it answers"
        except Failed:
            return False

    def log(self):
        try:
            return (self.folder / "log").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""

    def signal(self, number):
        pid = self.pid()
        if pid is not None:
            os.kill(pid, number)
        return pid is not None

    def call(self, *command):
        """redis-cli's answer; None if the node does not answer."""
        if self.is_paused():
            return None
        try:
            done = subprocess.run(["redis-cli", *cli_tls(self.tls), "-h", HOST, "-p", str(self.port),
                                   *command],
                                  capture_output=True, text=True, check=False,
                                  timeout=COMMAND_TIMEOUT_S, env=environment(self.password))
        except subprocess.TimeoutExpired:
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    def info(self, section):
        text = self.call("INFO", section) or ""
        return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


class Cluster:
    def __init__(self, folder, options, nodes):
        self.folder, self.options, self.nodes = folder, options, nodes

    @staticmethod
    def load(folder):
        try:
            state = json.loads((folder / STATE).read_text(encoding="utf-8"))
        except FileNotFoundError:
            fail(f"there is no cluster in {folder}; start one with `up`")
        except (OSError, ValueError) as error:
            fail(f"{folder / STATE}: {error}; remove {folder} if no redis-server runs in it")
        nodes = [Node(folder, number + 1, *ports, state["password"], state["options"].get("tls"))
                 for number, ports in enumerate(state["ports"])]
        return Cluster(folder, state["options"], nodes)

    def save(self):
        state = {"options": self.options, "password": self.nodes[0].password,
                 "ports": [[node.port, node.bus_port] for node in self.nodes]}
        (self.folder / STATE).touch(mode=0o600)
        (self.folder / STATE).write_text(json.dumps(state), encoding="utf-8")

    def node(self, number):
        if not 1 <= number <= len(self.nodes):
            fail(f"there is no node {number}: they are 1 to {len(self.nodes)}")
        return self.nodes[number - 1]

    def roles(self):
        """By port: (role, the port of its master, count of slots), as a node that lives sees it."""
        if self.options["single"]:
            return {}
        for node in self.nodes:
            text = node.call("CLUSTER", "NODES") if node.pid() is not None else None
            if text:
                break
        else:
            return {}
        lines = [line.split() for line in text.splitlines()]
        port_of = {line[0]: int(line[1].split("@")[0].rsplit(":", 1)[1]) for line in lines}
        roles = {}
        for line in lines:
            slots = 0
            for part in line[8:]:
                if part.startswith("["):
                    continue
                first, _, last = part.partition("-")
                slots += int(last or first) - int(first) + 1
            role = "master" if "master" in line[2] else "replica"
            if "fail" in line[2].replace("fail?", "").split(","):
                role = "failed " + role
            roles[port_of[line[0]]] = (role, port_of.get(line[3]), slots)
        return roles

    def owners(self):
        """By slot: the master that has it."""
        for node in self.nodes:
            text = node.call("CLUSTER", "NODES") if node.pid() is not None else None
            if text:
                break
        else:
            return {}
        by_port = {node.port: node for node in self.nodes}
        owners = {}
        for line in text.splitlines():
            parts = line.split()
            owner = by_port.get(int(parts[1].split("@")[0].rsplit(":", 1)[1]))
            for part in parts[8:]:
                if part.startswith("["):
                    continue
                first, _, last = part.partition("-")
                for slot in range(int(first), int(last or first) + 1):
                    owners[slot] = owner
        return owners

    def is_complete(self):
        """All nodes live, all replicas follow."""
        followers = [node for node in self.nodes
                     if node.info("replication").get("master_link_status") == "up"]
        replicas = self.options["replicas"]
        wanted = len(self.nodes) * replicas // (1 + replicas)
        seen = [role for role, _, _ in self.roles().values() if role == "replica"]
        return self.is_whole() and len(followers) == wanted and (
            len(seen) == wanted or self.options["single"])

    def is_whole(self):
        """Every node that lives says so, and every replica that lives follows its master."""
        for node in self.nodes:
            if node.pid() is None:
                continue
            if self.options["single"]:
                if node.call("PING") != "PONG":
                    return False
                continue
            if "cluster_state:ok" not in (node.call("CLUSTER", "INFO") or ""):
                return False
            replication = node.info("replication")
            if replication.get("role") == "slave" and replication.get("master_link_status") != "up":
                return False
        return True

    def start_all(self):
        with concurrent.futures.ThreadPoolExecutor(len(self.nodes)) as pool:
            return all(pool.map(Node.start, self.nodes))

    def join(self):
        addresses = [f"{HOST}:{node.port}" for node in self.nodes]
        with subprocess.Popen(
                ["redis-cli", *cli_tls(self.nodes[0].tls), "--cluster", "create", *addresses, "--cluster-replicas",
                 str(self.options["replicas"]), "--cluster-yes"],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                env=environment(self.nodes[0].password)) as creator:
            try:
                wait_until(lambda: self.is_created(creator), CLUSTER_TIMEOUT_S, "redis-cli --cluster create")
            except BaseException:
                creator.kill()
                raise
            if creator.wait() != 0:
                fail(f"redis-cli --cluster create: {creator.stdout.read().strip()}")

    def is_created(self, creator):
        """Introduces nodes once more that redis-cli has introduced already: it does so once and waits for ever, and Redis
        forgets one that has not answered within the time of nodes, which a busy machine may need for it."""
        try:
            creator.wait(MEET_AGAIN_S)
            return True
        except subprocess.TimeoutExpired:
            pass
        for node in self.nodes[1:]:
            self.nodes[0].call("CLUSTER", "MEET", HOST, str(node.port), str(node.bus_port))
        return False

    def end(self):
        for node in self.nodes:
            node.signal(signal.SIGCONT)
            node.signal(signal.SIGKILL)
        wait_until(lambda: all(node.pid() is None for node in self.nodes), START_TIMEOUT_S, "down")
        shutil.rmtree(self.folder, ignore_errors=True)

    @contextlib.contextmanager
    def ended_unless_made(self):
        """Whoever is told that `up` failed removes the folder, and nobody could find its servers."""
        try:
            yield
        except BaseException:
            self.end()
            raise

    def addresses(self):
        return ",".join(f"{HOST}:{node.port}" for node in self.nodes)


def up(arguments):
    folder = arguments.dir
    if (folder / STATE).exists():
        cluster = Cluster.load(folder)
        if all(node.pid() is not None for node in cluster.nodes):
            print(cluster.addresses())
            return
        fail(f"{folder} holds a cluster of which nodes are down; `start` them, or take it `down`")
    if shutil.which("redis-server") is None or shutil.which("redis-cli") is None:
        fail("redis-server and redis-cli are not installed; run tools/deps redis")
    if arguments.single and (arguments.masters != 1 or arguments.replicas != 0):
        fail("--single is one Redis: --masters 1 --replicas 0")
    if not arguments.single and arguments.masters < 3:
        fail("a cluster has at least 3 masters; one Redis without a cluster: "
             "--masters 1 --replicas 0 --single")
    options = {"single": arguments.single, "replicas": arguments.replicas,
               "appendonly": arguments.appendonly, "appendfsync": arguments.appendfsync,
               "node_timeout_ms": arguments.node_timeout_ms,
               "tls": arguments.tls and str(arguments.tls)}
    password = read_password(arguments.password_file)
    count = arguments.masters * (1 + arguments.replicas)
    # `down` removes the folder with all that is in it.
    if folder.exists() and any(folder.iterdir()):
        fail(f"{folder} is not empty and holds no cluster: name a folder that is new or empty")
    folder.mkdir(parents=True, exist_ok=True)
    for _ in range(START_ATTEMPTS):
        ports = free_ports(2 * count)
        nodes = [Node(folder, index + 1, ports[2 * index], ports[2 * index + 1], password,
                      options["tls"])
                 for index in range(count)]
        cluster = Cluster(folder, options, nodes)
        with cluster.ended_unless_made():
            for node in nodes:
                node.write_config(options)
            cluster.save()
            if cluster.start_all():
                if not options["single"]:
                    cluster.join()
                wait_until(cluster.is_complete, CLUSTER_TIMEOUT_S, "the cluster to be whole")
                break
            logs = "".join(node.log()[-300:] for node in nodes if node.pid() is None)
        cluster.end()
        folder.mkdir(parents=True, exist_ok=True)
    else:
        fail(f"the nodes do not start; the last lines of their logs:\n{logs}")
    print(cluster.addresses())


def down(arguments):
    if (arguments.dir / STATE).exists():
        Cluster.load(arguments.dir).end()


def status(arguments):
    cluster = Cluster.load(arguments.dir)
    roles = cluster.roles()
    number_of = {node.port: node.number for node in cluster.nodes}
    rows = []
    for node in cluster.nodes:
        role, master, slots = roles.get(node.port, ("single" if not roles else "unknown", None, 0))
        pid = node.pid()
        memory = int(node.info("memory").get("used_memory", 0)) if pid is not None else 0
        rows.append({"node": node.number, "address": f"{HOST}:{node.port}", "pid": pid,
                     "role": role, "master": number_of.get(master), "slots": slots,
                     "used_memory_bytes": memory})
    if arguments.json:
        print(json.dumps({"addresses": cluster.addresses(), "whole": cluster.is_whole(),
                          "nodes": rows}))
        return
    print(f"{'node':>4}  {'address':<21} {'pid':>8}  {'role':<15} {'slots':>6} {'memory':>10}")
    for row in rows:
        role = row["role"] + (f" of {row['master']}" if row["master"] else "")
        print(f"{row['node']:>4}  {row['address']:<21} {row['pid'] or 'down':>8}  {role:<15} "
              f"{row['slots']:>6} {row['used_memory_bytes'] / 2**20:>6.1f} MiB")
    print("whole" if cluster.is_whole() else "NOT whole")


def kill(arguments):
    node = Cluster.load(arguments.dir).node(arguments.node)
    node.signal(signal.SIGCONT)
    if not node.signal(signal.SIGKILL):
        fail(f"node {node.number} is down already")
    wait_until(lambda: node.pid() is None, START_TIMEOUT_S, f"the end of node {node.number}")


def pause(arguments):
    node = Cluster.load(arguments.dir).node(arguments.node)
    if not node.signal(signal.SIGSTOP):
        fail(f"node {node.number} is down; `start` it first")


def resume(arguments):
    node = Cluster.load(arguments.dir).node(arguments.node)
    if not node.signal(signal.SIGCONT):
        fail(f"node {node.number} is down; `start` it first")


def start(arguments):
    node = Cluster.load(arguments.dir).node(arguments.node)
    # A connection of somebody's may have its port for a moment.
    for _ in range(START_ATTEMPTS):
        if node.start():
            return
        time.sleep(START_AGAIN_S)
    fail(f"node {node.number} does not start; its log is {node.folder}/log")


def failover(arguments):
    cluster = Cluster.load(arguments.dir)
    if cluster.options["single"]:
        fail("a single Redis has nobody to take over")
    node = cluster.node(arguments.node)
    roles = cluster.roles()
    role, master, _ = roles.get(node.port, ("unknown", None, 0))
    master_port = node.port if role == "master" else master
    replicas = [other for other in cluster.nodes
                if other.pid() is not None and roles.get(other.port, ("", None, 0))[:2] ==
                ("replica", master_port)]
    if not replicas:
        fail(f"node {node.number} ({role}) has no replica that lives")
    taker = replicas[0]
    force = ["FORCE"] if arguments.force else []
    answer = taker.call("CLUSTER", "FAILOVER", *force)
    if answer != "OK":
        fail(f"node {taker.number} does not take over: {answer}")
    asked_at = time.monotonic()

    def has_taken_over():
        nonlocal asked_at
        if taker.info("replication").get("role") == "master":
            return True
        # Redis gives a failover up after 5 s, and tells nobody.
        if time.monotonic() - asked_at > FAILOVER_AGAIN_S:
            asked_at = time.monotonic()
            taker.call("CLUSTER", "FAILOVER", *force)
        return False

    wait_until(has_taken_over, FAILOVER_TIMEOUT_S, f"node {taker.number} to be master")
    print(f"node {taker.number} has taken over")


def move_slot(source, target, slot):
    """As `redis-cli --cluster reshard` does it: clients meet ASK and TRYAGAIN meanwhile."""
    def must(node, *command):
        answer = node.call(*command)
        if answer is None or answer.startswith(("ERR", "IOERR", "NOREPLICAS")):
            fail(f"moving slot {slot}: node {node.number}: {' '.join(command[:3])}: "
                 f"{answer or 'no answer'}")
        return answer

    source_id, target_id = must(source, "CLUSTER", "MYID"), must(target, "CLUSTER", "MYID")
    must(target, "CLUSTER", "SETSLOT", str(slot), "IMPORTING", source_id)
    must(source, "CLUSTER", "SETSLOT", str(slot), "MIGRATING", target_id)
    while keys := must(source, "CLUSTER", "GETKEYSINSLOT", str(slot), "100").splitlines():
        auth = ["AUTH", source.password] if source.password else []
        must(source, "MIGRATE", HOST, str(target.port), "", "0", str(MIGRATE_TIMEOUT_MS), *auth,
             "KEYS", *keys)
    # The target first: if it dies before it knows, the slot is still the source's.
    must(target, "CLUSTER", "SETSLOT", str(slot), "NODE", target_id)
    must(source, "CLUSTER", "SETSLOT", str(slot), "NODE", target_id)


def move(arguments):
    cluster = Cluster.load(arguments.dir)
    if cluster.options["single"]:
        fail("a single Redis has no slots")
    target = cluster.node(arguments.node)
    if not 0 <= arguments.slot < SLOT_COUNT or arguments.count < 1:
        fail(f"slots are 0 to {SLOT_COUNT - 1}")
    slots = range(arguments.slot, min(arguments.slot + arguments.count, SLOT_COUNT))
    owners = cluster.owners()
    for slot in slots:
        source = owners.get(slot)
        if source is None:
            fail(f"nobody has slot {slot}")
        if source != target:
            move_slot(source, target, slot)


def main():
    parser = argparse.ArgumentParser(prog="tools/redis-cluster", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", type=lambda text: pathlib.Path(text).absolute(),
                        default=ROOT / "out/redis-cluster",
                        help="where the nodes keep their files (default: out/redis-cluster)")
    verbs = parser.add_subparsers(required=True, metavar="VERB")

    def add(name, action, summary, takes_node=False):
        verb = verbs.add_parser(name, help=summary, description=summary)
        verb.set_defaults(action=action)
        if takes_node:
            verb.add_argument("node", type=int, help="its number, as `status` prints it")
        return verb

    verb = add("up", up, "starts the nodes, joins them, prints their addresses")
    verb.add_argument("--masters", type=int, default=3)
    verb.add_argument("--replicas", type=int, default=1, help="of each master (default: 1)")
    verb.add_argument("--single", action="store_true", help="one Redis that is no cluster")
    verb.add_argument("--appendonly", action=argparse.BooleanOptionalAction, default=True,
                      help="the nodes write a log, so that one that comes back knows what it knew")
    verb.add_argument("--appendfsync", choices=["always", "everysec"], default="everysec",
                      help="when the log is on the disk: a node that is killed has forgotten none "
                           "of what it has answered, or up to 2 seconds of it while the disk is busy "
                           "(default: everysec)")
    verb.add_argument("--node-timeout-ms", type=int, default=2000,
                      help="a node silent for so long is taken for dead (default: 2000)")
    verb.add_argument("--password-file", type=pathlib.Path,
                      help="the nodes ask for what this file holds")
    verb.add_argument("--tls", type=lambda text: pathlib.Path(text).absolute(), metavar="FOLDER",
                      help="all of them speak TLS alone, to each other, too, with redis.pem, redis.key and "
                           "ca.pem of this folder, and ask clients for certificates")
    add("down", down, "ends all nodes and removes their files")
    add("status", status, "prints a line for each node").add_argument(
        "--json", action="store_true", help="one JSON object")
    add("kill", kill, "a node dies at once", takes_node=True)
    add("pause", pause, "a node stops answering", takes_node=True)
    add("resume", resume, "a paused node goes on", takes_node=True)
    add("start", start, "a node that was killed comes back", takes_node=True)
    verb = add("move", move, "moves slots to a master, with what they hold")
    verb.add_argument("slot", type=int, help="the first of them")
    verb.add_argument("node", type=int, help="where they go: a master's number")
    verb.add_argument("--count", type=int, default=1, help="how many (default: 1)")
    add("failover", failover, "a replica takes over from the node's master",
        takes_node=True).add_argument("--force", action="store_true",
                                      help="also when the master does not answer")
    arguments = parser.parse_args()
    # As Ctrl-C: what is begun is taken back.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        arguments.action(arguments)
    except Failed as error:
        fail(error)


if __name__ == "__main__":
    main()
