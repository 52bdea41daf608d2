"""Pods that only hold a place, with an address and labels, and commands in the network of a pod."""

import json

import nodes
from processes import Failed, run, wait_until

START_TIMEOUT_S = 60


def stand_in(namespace, name, labels, ports=()):
    """A pod of the process that holds other pods' namespaces. `ports`: name -> number."""
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace, "labels": labels},
            "spec": {
                "automountServiceAccountToken": False, "terminationGracePeriodSeconds": 0,
                "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
                "containers": [{
                    "name": "pause", "image": "localhost/pause:dev", "imagePullPolicy": "IfNotPresent",
                    "ports": [{"name": port, "containerPort": number} for port, number in dict(ports).items()],
                    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}}]}}


def namespace_object(name, labels):
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def create(plane, objects):
    """Namespaces first. A new one takes pods once the controllers have given it its service account."""
    objects = sorted(objects, key=lambda one: one["kind"] != "Namespace")
    document = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    said = []

    def is_done():
        said[:] = [plane.kubectl("apply", "--filename=-", stdin=document, check=False)]
        return said[0].returncode == 0

    wait_until(is_done, START_TIMEOUT_S, "making pods", lambda: said[0].stderr)


def get(plane, namespace, name):
    return json.loads(plane.kubectl(f"--namespace={namespace}", "get", "pod", name, "--output=json").stdout)


def wait_running(plane, namespace, name):
    """The pod, once it runs and has an address."""
    def found():
        pod = get(plane, namespace, name)
        statuses = pod["status"].get("containerStatuses", [])
        is_up = pod["status"].get("podIP") and statuses and all("running" in one["state"] for one in statuses)
        return pod if is_up else None

    return wait_until(found, START_TIMEOUT_S, f"the pod {namespace}/{name} to run")


def enter(box, pod):
    """What a command line in the network of that pod begins with: all else of it is the box's."""
    statuses = pod["status"].get("containerStatuses") or [{}]
    container = statuses[0].get("containerID", "").removeprefix("containerd://")
    node = pod["spec"].get("nodeName", "node0").removeprefix("node")
    for line in run(nodes.ctr(box, node, "tasks", "list")).stdout.splitlines():
        # Its id, its process, its state.
        fields = line.split()
        if container and fields[0] == container:
            return [*box.enter(), "nsenter", f"--target={fields[1]}", "--net", "--"]
    raise Failed(f"the pod {pod['metadata']['namespace']}/{pod['metadata']['name']} has no running container")
