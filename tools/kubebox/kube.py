"""tools/kube: a real Kubernetes on this machine, for tests and for trying kerf's deployment out.

  tools/kube up                         a control plane and a node that runs pods (root)
  tools/kube up --nodes 3               three nodes in three zones
  tools/kube up --control-plane         etcd and the API server alone, in some seconds, no root
  tools/kube status [--json]
  tools/kube apply deploy/overlays/dev  strictly: what is unknown, wrong or warned of fails
  tools/kube image NAME ROOT.tar        a root file system (deploy/image/rootfs) becomes an image that
                                        the nodes have
  tools/kube kubectl -- get pods -A
  tools/kube enter -- COMMAND...        runs beside the pods, with their DNS: no NetworkPolicy holds for it
  tools/kube enter --pod NAMESPACE/NAME -- COMMAND...
                                        runs in the network of that pod, and is it for NetworkPolicies
  tools/kube --dir DIR e2e              kerf in real pods of a cluster of its own: backups, updates,
                                        evictions and broken images; nothing of it may fail a file
  tools/kube down                       ends everything and removes its files

Clusters in different folders (--dir, by default out/kube) do not know of each other. The pods have a
network of their own, with DNS for headless Services, in which NetworkPolicies hold; there is no route
out of it, and Services have no cluster addresses that answer (no kube-proxy).
"""

import argparse
import json
import os
import pathlib
import secrets
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).absolute().parents[2]
sys.path.insert(0, str(ROOT / "tools/python"))

import apply
import e2e
import nodes
import pods
from box import Box
from control_plane import ControlPlane
from oci_image import write_image
from processes import Failed, end, is_own

STATE = "kube.json"


class Cluster:
    """What `up` has started, as its folder remembers it."""

    def __init__(self, folder, state):
        self.folder, self.state = folder, state
        self.box = Box(folder, state["box"]) if state["nodes"] else None

    @staticmethod
    def load(folder):
        try:
            return Cluster(folder, json.loads((folder / STATE).read_text(encoding="utf-8")))
        except FileNotFoundError:
            raise Failed(f"there is no cluster in {folder}; start one with `up`") from None

    def save(self):
        (self.folder / STATE).write_text(json.dumps(self.state), encoding="utf-8")

    def enter(self):
        return self.box.enter() if self.box else []

    def plane(self):
        return ControlPlane(self.folder, self.state["programs"], self.enter(), self.state["port"],
                            self.remember)

    def remember(self, pid):
        self.state["pids"].append(pid)
        self.save()

    def start(self):
        count = self.state["nodes"]
        self.save()
        if self.box:
            self.state["box"] = self.box.start(count)
            self.save()
        plane = self.plane()
        plane.write_credentials(nodes.users(count))
        plane.start()
        self.state["port"] = plane.port
        self.save()
        if count:
            self.state["policy_keeper"] = nodes.start_policies(plane)
            self.save()
            nodes.start_controllers(plane)
            for number in range(1, 1 + count):
                nodes.start_node(plane, self.box, number)
            nodes.start_dns(plane)
            nodes.wait_ready(plane, count)
            nodes.make_volumes(plane, count)
        else:
            nodes.make_service_accounts(plane, "default")

    def end(self):
        # Whoever is impatient now would leave half of it behind.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        if self.box:
            self.box.end()
        end(self.state["pids"], self.folder)
        shutil.rmtree(self.folder)


def built(node_count):
    """The folder of the programs: installs what is missing, and builds them the first time."""
    for command in (["tools/deps", "kube" if node_count else "kube-control"],
                    ["tools/kubebox/build", "node" if node_count else "control"]):
        done = subprocess.run([ROOT / command[0], command[1]], stdout=subprocess.PIPE, text=True,
                              check=False)
        if done.returncode != 0:
            raise Failed(f"{' '.join(command)} failed")
    return done.stdout.strip()


def new_cluster(folder, node_count):
    """A cluster that is up, or nothing at all."""
    if (folder / STATE).exists():
        raise Failed(f"{folder} holds a cluster: `status` tells of it, `down` ends it")
    # `down` removes the folder with all that is in it.
    if folder.exists() and any(folder.iterdir()):
        raise Failed(f"{folder} is not empty and holds no cluster: name a folder that is new or "
                     "empty")
    programs = built(node_count)
    folder.mkdir(parents=True, exist_ok=True)
    cluster = Cluster(folder, {"programs": programs, "nodes": node_count, "box": None, "pids": [],
                               "port": None, "policy_keeper": None})
    try:
        cluster.start()
    except BaseException:
        cluster.end()
        raise
    return cluster


def up(arguments):
    if not arguments.control_plane and not 1 <= arguments.nodes <= 9:
        raise Failed("--nodes: 1 to 9")
    cluster = new_cluster(arguments.dir, 0 if arguments.control_plane else arguments.nodes)
    print(cluster.plane().kubeconfig())


def down(arguments):
    if (arguments.dir / STATE).exists():
        Cluster.load(arguments.dir).end()


def status(arguments):
    cluster = Cluster.load(arguments.dir)
    alive = [pid for pid in cluster.state["pids"] if is_own(pid, arguments.dir)]
    is_whole = len(alive) == len(cluster.state["pids"]) and cluster.plane().is_ready()
    if arguments.json:
        print(json.dumps({"kubeconfig": str(cluster.plane().kubeconfig()), "whole": is_whole,
                          "nodes": cluster.state["nodes"], "processes": len(alive)}))
    else:
        print(f"{len(alive)} of {len(cluster.state['pids'])} processes live, "
              f"{cluster.state['nodes']} nodes, kubeconfig {cluster.plane().kubeconfig()}")
        print("whole" if is_whole else "NOT whole")
    if not is_whole:
        sys.exit(1)


def apply_overlays(arguments):
    plane = Cluster.load(arguments.dir).plane()
    for overlay in arguments.overlay:
        count = apply.apply(plane, overlay, arguments.dry_run)
        print(f"{overlay}: {count} objects")


def image(arguments):
    cluster = Cluster.load(arguments.dir)
    archive = cluster.folder / "image.tar"
    write_image(archive, arguments.name, arguments.root.read_bytes())
    for number in range(1, 1 + cluster.state["nodes"]):
        nodes.import_image(cluster.box, number, archive)
    archive.unlink()


def kubectl(arguments):
    command = Cluster.load(arguments.dir).plane().kubectl_command(*arguments.command)
    os.execvp(command[0], command)


def enter(arguments):
    cluster = Cluster.load(arguments.dir)
    before = cluster.enter()
    if arguments.pod:
        namespace, slash, name = arguments.pod.partition("/")
        if not slash or not cluster.box:
            raise Failed("--pod: want NAMESPACE/NAME of a pod that runs")
        before = pods.enter(cluster.box, pods.get(cluster.plane(), namespace, name))
    command = [*before, *arguments.command]
    os.execvp(command[0], command)


def run_e2e(arguments):
    seed = os.environ.get("KERF_TEST_SEED") or secrets.token_hex(4)
    print(f"KERF_TEST_SEED={seed} replays the files")
    for command in (["tools/build"], ["tools/deps", "image"]):
        if not arguments.no_build and subprocess.run(
                [ROOT / command[0], *command[1:]], check=False).returncode != 0:
            raise Failed(f"{' '.join(command)} failed")
    began = time.monotonic()
    cluster = new_cluster(arguments.dir, arguments.nodes)
    print(f"{arguments.nodes} nodes are up after {time.monotonic() - began:.0f} s", flush=True)
    try:
        e2e.run_all(cluster, ROOT, seed, arguments.policy_faults)
    finally:
        if not arguments.keep:
            cluster.end()


def main():
    parser = argparse.ArgumentParser(prog="tools/kube", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", type=lambda text: pathlib.Path(text).absolute(),
                        default=ROOT / "out/kube",
                        help="where the cluster keeps its files (default: out/kube)")
    verbs = parser.add_subparsers(required=True, metavar="VERB")

    def add(name, action, summary):
        verb = verbs.add_parser(name, help=summary, description=summary)
        verb.set_defaults(action=action)
        return verb

    verb = add("up", up, "starts a cluster, prints the kubeconfig")
    verb.add_argument("--control-plane", action="store_true",
                      help="no nodes: objects are checked and kept, and nothing comes of them")
    verb.add_argument("--nodes", type=int, default=1, help="1 to 9 (default: 1)")
    add("down", down, "ends everything and removes its files")
    add("status", status, "says whether the cluster is whole").add_argument(
        "--json", action="store_true", help="one JSON object")
    verb = add("apply", apply_overlays, "applies kustomizations or files, strictly")
    verb.add_argument("overlay", nargs="+", type=pathlib.Path)
    verb.add_argument("--dry-run", action="store_true",
                      help="namespaces really, the rest is only checked")
    verb = add("image", image, "gives the nodes an image")
    verb.add_argument("name", help="as pods name it, for example localhost/kerf:0.2.0-dev")
    verb.add_argument("root", type=pathlib.Path, metavar="ROOT.tar", help="its files")
    for name, action, summary in (("kubectl", kubectl, "kubectl, as this cluster's admin"),
                                  ("enter", enter, "a command beside the pods")):
        verb = add(name, action, summary)
        verb.add_argument("command", nargs="+", metavar="ARGUMENT")
    verb.add_argument("--pod", metavar="NAMESPACE/NAME", help="in the network of that pod")
    verb = add("e2e", run_e2e, "kerf in real pods, in a cluster of its own")
    verb.add_argument("--nodes", type=int, default=3, help="1 to 9 (default: 3)")
    verb.add_argument("--no-build", action="store_true", help="out/kerf and out/kerfd are what to test")
    verb.add_argument("--policy-faults", action="store_true",
                      help="NetworkPolicies are not only deleted, each must be seen to be broken in many ways: minutes")
    verb.add_argument("--keep", action="store_true", help="the cluster stays, to be looked at")
    arguments = parser.parse_args()
    # As Ctrl-C: what is begun is taken back.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        arguments.action(arguments)
    except Failed as error:
        sys.exit(f"tools/kube: {error}")


if __name__ == "__main__":
    main()
