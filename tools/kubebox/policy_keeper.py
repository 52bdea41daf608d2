"""Carries the NetworkPolicies of a cluster out: watches its pods, namespaces and policies, and renews the rules of the
packet filter whenever these come out different. Runs in the cluster's box for as long as the box does.

When it is not there the rules stay as they were: pods that come meanwhile are shut off.
"""

import http.client
import json
import pathlib
import ssl
import subprocess
import sys
import threading
import time
import urllib.request

from box import GATEWAY, POD_NETWORK
from packet_filter import rules
from policies import Pod, judge, running_pods, unsupported

KINDS = {"pods": "/api/v1/pods", "namespaces": "/api/v1/namespaces",
         "policies": "/apis/networking.k8s.io/v1/networkpolicies"}
WATCH_S = 240
ANSWER_TIMEOUT_S = 30
PAUSE_S = 0.2
# What changes together comes as several events.
GATHER_S = 0.02
# The cluster's DNS runs beside the pods; for policies it is the pod that it would be elsewhere.
NAME_SERVER = Pod("kube-system", "kubebox-dns", GATEWAY, {"k8s-app": "kube-dns"},
                  {("dns", "UDP"): 53, ("dns-tcp", "TCP"): 53})


class Api:
    def __init__(self, kubeconfig):
        config = json.loads(kubeconfig.read_text(encoding="utf-8"))
        cluster = config["clusters"][0]["cluster"]
        self.server, self.token = cluster["server"], config["users"][0]["user"]["token"]
        self.tls = ssl.create_default_context(cafile=cluster["certificate-authority"])

    def open(self, path, timeout_s):
        request = urllib.request.Request(self.server + path, headers={"Authorization": f"Bearer {self.token}"})
        return urllib.request.urlopen(request, timeout=timeout_s, context=self.tls)


class Watch(threading.Thread):
    """All objects of one kind, as they are now."""

    def __init__(self, api, path, changed):
        super().__init__(daemon=True)
        self.api, self.path, self.changed = api, path, changed
        # By uid; None before the first list. Never changed in place, for others read it.
        self.objects = None

    def run(self):
        while True:
            try:
                self.follow(self.read())
            # Whatever it is: all is read anew, for as long as it takes.
            except (OSError, ValueError, KeyError, http.client.HTTPException) as error:
                print(f"{self.path}: {error!r}", flush=True)
            time.sleep(PAUSE_S)

    def read(self):
        with self.api.open(self.path, ANSWER_TIMEOUT_S) as answer:
            found = json.load(answer)
        self.put({one["metadata"]["uid"]: one for one in found["items"]})
        return found["metadata"]["resourceVersion"]

    def follow(self, version):
        path = f"{self.path}?watch=1&resourceVersion={version}&timeoutSeconds={WATCH_S}"
        with self.api.open(path, WATCH_S + ANSWER_TIMEOUT_S) as events:
            for line in events:
                event = json.loads(line)
                one = event["object"]
                if event["type"] == "ERROR":
                    raise ValueError(one.get("message"))
                rest = {uid: other for uid, other in self.objects.items() if uid != one["metadata"]["uid"]}
                self.put(rest if event["type"] == "DELETED" else {**rest, one["metadata"]["uid"]: one})

    def put(self, objects):
        self.objects = objects
        self.changed.set()


def current_rules(pods, namespaces, policies):
    known = [NAME_SERVER]
    # The one that came last has the address, should one that is about to go still say it had it.
    for one in sorted(pods, key=lambda one: one["metadata"]["creationTimestamp"], reverse=True):
        known += [pod for pod in running_pods([one]) if all(pod.address != other.address for other in known)]
    known[1:] = sorted(known[1:], key=str)
    judged = judge(policies, known, {one["metadata"]["name"]: one["metadata"].get("labels", {}) for one in namespaces})
    return rules(judged, known, POD_NETWORK)


def install(text):
    subprocess.run(["nft", "--file", "-"], input=text, text=True, check=True)


def keep(kubeconfig, ready):
    # Shut, until all is known.
    install(rules({}, [], POD_NETWORK))
    installed, refused = None, set()
    changed = threading.Event()
    api = Api(kubeconfig)
    watches = {kind: Watch(api, path, changed) for kind, path in KINDS.items()}
    for watch in watches.values():
        watch.start()
    while True:
        changed.wait()
        time.sleep(GATHER_S)
        changed.clear()
        if any(watch.objects is None for watch in watches.values()):
            continue
        found = {kind: list(watch.objects.values()) for kind, watch in watches.items()}
        for policy in found["policies"]:
            for reason in unsupported(policy):
                said = f"{policy['metadata']['namespace']}/{policy['metadata']['name']}: shuts its pods off: {reason}"
                if said not in refused:
                    refused.add(said)
                    print(said, flush=True)
        text = current_rules(**found)
        if text != installed:
            install(text)
            installed = text
            print(f"{time.strftime('%H:%M:%S')} {len(found['policies'])} policies, {text.count(' : ')} ends", flush=True)
        ready.touch()


if __name__ == "__main__":
    keep(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
