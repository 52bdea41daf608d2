"""What runs pods: controllers, nodes (containerd and a kubelet each) and the cluster's DNS, all in the
cluster's box."""

import io
import json
import pathlib
import sys
import tarfile

from box import GATEWAY, POD_NETWORK, node_address
from oci_image import write_image
from processes import HOST, Failed, is_own, log_tail, run, wait_until

HERE = pathlib.Path(__file__).absolute().parent

START_TIMEOUT_S = 60
DNS_READY_PORT = 8181
VOLUMES_PER_NODE = 6
VOLUME_SIZE = "10Gi"
CNI_PROGRAMS = "/usr/lib/cni"


def users(node_count):
    """Who may ask the API server: name -> (user, groups)."""
    known = {"admin": ("admin", ["system:masters"])}
    if node_count:
        known["kube-scheduler"] = ("system:kube-scheduler", [])
        known["kube-controller-manager"] = ("system:kube-controller-manager", ["system:masters"])
        known["dns"] = ("dns", ["system:masters"])
        known["policies"] = ("policies", ["system:masters"])
        for number in range(1, 1 + node_count):
            known[f"node{number}"] = (f"system:node:node{number}", ["system:nodes"])
    return known


def start_controllers(plane):
    node = plane.program("node")
    common = [f"--bind-address={HOST}", "--leader-elect=false"]

    def launch(name, *more):
        config = plane.kubeconfig(name)
        plane.launch([node, name, *common, f"--kubeconfig={config}",
                      f"--authentication-kubeconfig={config}", f"--authorization-kubeconfig={config}",
                      *more], plane.folder / f"{name}.log")

    launch("kube-scheduler")
    launch("kube-controller-manager", "--use-service-account-credentials=false",
           f"--service-account-private-key-file={plane.pki}/sa.key",
           f"--root-ca-file={plane.pki}/apiserver.crt")


def make_service_accounts(plane, *namespaces):
    """The controller manager's work, without which no pod is let in."""
    for namespace in namespaces:
        plane.kubectl("create", "serviceaccount", "default", f"--namespace={namespace}")


def start_policies(plane):
    """From here on no pod reaches anybody, or is reached, but as the NetworkPolicies say. Returns whose pid sees to it."""
    ready, log = plane.folder / "policies.ready", plane.folder / "policies.log"
    pid = plane.launch([sys.executable, "-B", str(HERE / "policy_keeper.py"), str(plane.kubeconfig("policies")), str(ready)],
                       log)
    wait_until(lambda: ready.exists() or not is_own(pid, plane.folder), START_TIMEOUT_S, "the NetworkPolicies' keeper",
               lambda: log_tail(log))
    if not ready.exists():
        raise Failed("NetworkPolicies cannot be carried out\n" + log_tail(log))
    return pid


def start_node(plane, box, number):
    name = f"node{number}"
    folder = plane.folder / name
    for part in ("containerd", "cni", "kubelet", "pki"):
        (folder / part).mkdir(parents=True)
    # In the box /run is its own: sockets there have short names, wherever the folder is.
    run_folder = f"/run/{name}"
    (folder / "containerd.toml").write_text(containerd_config(folder, run_folder), encoding="utf-8")
    (folder / "cni/10-kerf.conflist").write_text(cni_config(folder, number), encoding="utf-8")
    (folder / "kubelet.yaml").write_text(kubelet_config(folder, run_folder, box, number),
                                         encoding="utf-8")
    plane.launch(["containerd", "--config", str(folder / "containerd.toml")],
                 folder / "containerd.log")
    wait_until(lambda: run(ctr(box, number, "version"), check=False).returncode == 0,
               START_TIMEOUT_S, f"containerd of {name}",
               lambda: log_tail(folder / "containerd.log"))
    import_image(box, number, pause_archive(plane))
    zone = "abcdefghi"[number - 1]
    plane.launch([plane.program("node"), "kubelet", f"--config={folder}/kubelet.yaml",
                  f"--kubeconfig={plane.kubeconfig(name)}", f"--hostname-override={name}",
                  f"--node-ip={node_address(number)}", f"--root-dir={folder}/kubelet",
                  f"--cert-dir={folder}/pki",
                  f"--node-labels=topology.kubernetes.io/zone=zone-{zone}"],
                 folder / "kubelet.log")


def ctr(box, number, *arguments):
    return [*box.enter(), "ctr", "--address", f"/run/node{number}/containerd.sock",
            "--namespace", "k8s.io", *arguments]


def import_image(box, number, archive):
    run(ctr(box, number, "images", "import", str(archive.absolute())), timeout_s=300)


def pause_archive(plane):
    """The image of the process that holds a pod's namespaces."""
    archive = plane.folder / "pause.tar"
    if not archive.exists():
        root = io.BytesIO()
        with tarfile.open(fileobj=root, mode="w") as tar:
            tar.add(plane.program("pause"), "pause")
        write_image(archive, "localhost/pause:dev", root.getvalue(), ["/pause"])
    return archive


def containerd_config(folder, run_folder):
    return f"""version = 2
root = "{folder}/containerd"
state = "{run_folder}/containerd"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing"]
[grpc]
address = "{run_folder}/containerd.sock"
[ttrpc]
address = "{run_folder}/containerd.ttrpc"
[plugins."io.containerd.internal.v1.opt"]
path = "{folder}/opt"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "localhost/pause:dev"
restrict_oom_score_adj = true
disable_apparmor = true
tolerate_missing_hugetlb_controller = true
netns_mounts_under_state_dir = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{CNI_PROGRAMS}"
conf_dir = "{folder}/cni"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false
"""


def cni_config(folder, number):
    network = GATEWAY.rsplit(".", 2)[0]
    return json.dumps({"cniVersion": "0.4.0", "name": "kerf", "plugins": [
        # A link of its own for each pod, and the box routes between them.
        {"type": "ptp", "ipMasq": False, "ipam": {
             "type": "host-local", "dataDir": f"{folder}/addresses",
             "ranges": [[{"subnet": POD_NETWORK, "rangeStart": f"{network}.{number}.2",
                          "rangeEnd": f"{network}.{number}.250", "gateway": GATEWAY}]],
             "routes": [{"dst": "0.0.0.0/0"}]}}]})


def kubelet_config(folder, run_folder, box, number):
    # JSON is YAML.
    return json.dumps({
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
        "address": node_address(number), "healthzPort": 0,
        # Nobody but the box's own processes reaches it.
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "containerRuntimeEndpoint": f"unix://{run_folder}/containerd.sock",
        "cgroupDriver": "cgroupfs", "cgroupRoot": f"/{box.cgroup}/node{number}",
        "failCgroupV1": False, "failSwapOn": False, "oomScoreAdj": 0,
        "makeIPTablesUtilChains": False,
        "clusterDNS": [GATEWAY], "clusterDomain": "cluster.local",
        "resolvConf": str(box.folder / "box/resolv.conf"),
        "podLogsDir": str(folder / "logs"), "volumePluginDir": str(folder / "volume-plugins"),
        # The disk is the machine's: however full it is, it is not for the kubelet to mend.
        "evictionHard": {"memory.available": "1%", "nodefs.available": "1%",
                         "imagefs.available": "1%", "nodefs.inodesFree": "1%"},
        "imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99})


def start_dns(plane):
    corefile = plane.folder / "Corefile"
    corefile.write_text(f""".:53 {{
  ready {HOST}:{DNS_READY_PORT}
  errors
  kubernetes cluster.local {{
    kubeconfig {plane.kubeconfig("dns")}
    ttl 5
  }}
}}
""", encoding="utf-8")
    plane.launch([plane.program("dns"), "-conf", str(corefile)], plane.folder / "dns.log")


def wait_ready(plane, node_count):
    def is_ready():
        nodes = json.loads(plane.kubectl("get", "nodes", "--output=json").stdout)["items"]
        ready = [one for one in nodes for condition in one["status"].get("conditions", [])
                 if condition["type"] == "Ready" and condition["status"] == "True"]
        accounts = plane.kubectl("get", "serviceaccount", "default", check=False)
        return len(ready) == node_count and accounts.returncode == 0

    wait_until(is_ready, START_TIMEOUT_S, f"{node_count} ready nodes", lambda: "\n".join(
        [log_tail(plane.folder / f"node{1 + i}/kubelet.log") for i in range(node_count)] +
        [log_tail(plane.folder / "kube-controller-manager.log")]))
    wait_until(lambda: run([*plane.enter, "bash", "-c", f"</dev/tcp/{HOST}/{DNS_READY_PORT}"],
                           check=False).returncode == 0, START_TIMEOUT_S, "the cluster's DNS",
               lambda: log_tail(plane.folder / "dns.log"))


def make_volumes(plane, node_count):
    """Folders of the nodes, for pods that claim a volume of the default class."""
    objects = [{"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {
        "name": "folders",
        "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer"}]
    for number in range(1, 1 + node_count):
        for index in range(VOLUMES_PER_NODE):
            path = plane.folder / f"node{number}/volumes/{index}"
            path.mkdir(parents=True)
            objects.append({
                "apiVersion": "v1", "kind": "PersistentVolume",
                "metadata": {"name": f"node{number}-{index}"},
                "spec": {"capacity": {"storage": VOLUME_SIZE}, "accessModes": ["ReadWriteOnce"],
                         "persistentVolumeReclaimPolicy": "Retain", "storageClassName": "folders",
                         "local": {"path": str(path)},
                         "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                             {"key": "kubernetes.io/hostname", "operator": "In",
                              "values": [f"node{number}"]}]}]}}}})
    plane.kubectl("apply", "--filename=-", stdin=json.dumps(
        {"apiVersion": "v1", "kind": "List", "items": objects}))
