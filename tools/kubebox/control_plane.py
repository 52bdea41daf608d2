"""etcd and the API server of one cluster, on loopback, with credentials that only its folder holds."""

import json
import secrets
import shutil

from processes import (HOST, Failed, end, free_ports, is_own, log_tail, run, start, wait_until)

START_TIMEOUT_S = 90
# A port that was free may be taken before its server has it.
START_ATTEMPTS = 3
SERVICE_RANGE = "10.78.0.0/16"


class ControlPlane:
    """`enter` is what a command line begins with to run where the cluster is (box.py), or empty;
    `programs` the folder that tools/kubebox/build has filled; `remember` is told the pid of each
    process that is launched, at once, so that it is ended whatever happens next."""

    def __init__(self, folder, programs, enter, port, remember):
        self.folder, self.programs, self.enter, self.port = folder, programs, enter, port
        self.remember = remember
        self.pki = folder / "pki"

    def write_credentials(self, users):
        """A token and a kubeconfig for each of users: name -> (user, groups)."""
        self.pki.mkdir(parents=True, exist_ok=True)
        run(["openssl", "genrsa", "-out", self.pki / "sa.key", "2048"])
        lines = []
        self.tokens = {}
        for name, (user, groups) in users.items():
            self.tokens[name] = secrets.token_hex(16)
            lines.append(f'{self.tokens[name]},{user},{name},"{",".join(groups)}"')
        self._write_secret(self.pki / "tokens.csv", "\n".join(lines) + "\n")

    def _write_secret(self, path, text):
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")

    def _write_admission(self):
        """Pods that Pod Security calls not restricted are warned of in every namespace, also in one
        that does not ask for it."""
        path = self.folder / "admission.json"
        path.write_text(json.dumps({
            "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration",
            "plugins": [{"name": "PodSecurity", "configuration": {
                "apiVersion": "pod-security.admission.config.k8s.io/v1",
                "kind": "PodSecurityConfiguration", "defaults": {"warn": "restricted"}}}]}),
            encoding="utf-8")
        return path

    def _write_kubeconfigs(self):
        for name, token in self.tokens.items():
            # JSON is YAML.
            self._write_secret(self.kubeconfig(name), json.dumps({
                "apiVersion": "v1", "kind": "Config", "current-context": "kerf",
                "clusters": [{"name": "kerf", "cluster": {
                    "server": f"https://{HOST}:{self.port}",
                    "certificate-authority": str(self.pki / "apiserver.crt")}}],
                "users": [{"name": name, "user": {"token": token}}],
                "contexts": [{"name": "kerf", "context": {"cluster": "kerf", "user": name}}]}))

    def program(self, part):
        return f"{self.programs}/kubebox-{part}"

    def kubeconfig(self, name="admin"):
        return self.folder / f"{name}.kubeconfig"

    def launch(self, command, log):
        pid = start([*self.enter, *command], log)
        self.remember(pid)
        return pid

    def start(self):
        for _ in range(START_ATTEMPTS):
            ports = free_ports(3)
            pids = self._start_once(*ports)
            self.port = ports[2]
            self._write_kubeconfigs()
            wait_until(lambda: self.is_ready() or not all(is_own(pid, self.folder) for pid in pids),
                       START_TIMEOUT_S, "the API server to be ready", self.logs)
            if all(is_own(pid, self.folder) for pid in pids):
                return
            if "address already in use" not in self.logs():
                raise Failed(f"the control plane ended\n{self.logs()}")
            end(pids, self.folder)
            self._forget()
        raise Failed(f"the control plane finds no free ports\n{self.logs()}")

    def _start_once(self, client_port, peer_port, port):
        control = self.program("control")
        client, peer = f"http://{HOST}:{client_port}", f"http://{HOST}:{peer_port}"
        etcd = self.launch([
            control, "etcd", f"--data-dir={self.folder}/etcd",
            f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            # What it holds is thrown away with the cluster.
            "--unsafe-no-fsync"], self.folder / "etcd.log")
        keys = self.pki / "sa.key"
        server = self.launch([
            control, "kube-apiserver", f"--etcd-servers={client}",
            f"--bind-address={HOST}", f"--advertise-address={HOST}", f"--secure-port={port}",
            "--endpoint-reconciler-type=none", f"--cert-dir={self.pki}",
            f"--token-auth-file={self.pki}/tokens.csv", "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            f"--admission-control-config-file={self._write_admission()}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={keys}", f"--service-account-signing-key-file={keys}",
            f"--service-cluster-ip-range={SERVICE_RANGE}", "--allow-privileged=true",
            "--kubelet-preferred-address-types=InternalIP"], self.folder / "kube-apiserver.log")
        return [etcd, server]

    def _forget(self):
        shutil.rmtree(self.folder / "etcd", ignore_errors=True)
        for name in ("etcd", "kube-apiserver"):
            (self.folder / f"{name}.log").unlink(missing_ok=True)

    def is_ready(self):
        return self.kubectl("get", "--raw", "/readyz", check=False).stdout == "ok"

    def logs(self):
        return "\n".join(log_tail(self.folder / f"{name}.log") for name in ("etcd", "kube-apiserver"))

    def kubectl_command(self, *arguments):
        # A discovery cache of its own: one in the home folder would be shared between clusters.
        return [*self.enter, self.program("control"), "kubectl",
                f"--kubeconfig={self.kubeconfig()}", f"--cache-dir={self.folder}/kubectl",
                *arguments]

    def kubectl(self, *arguments, stdin=None, check=True, timeout_s=120):
        return run(self.kubectl_command(*arguments), timeout_s, stdin, check)
