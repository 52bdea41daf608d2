"""Pods keep to the Pod Security Standard `restricted`, and to what kerf asks beyond it."""

USER = 65532
_VOLUMES = {"configMap", "secret", "emptyDir", "persistentVolumeClaim", "projected", "downwardAPI", "csi", "ephemeral"}
_SECRET_MODE = 0o440
_SECRET_WORDS = ("password", "secret", "token", "key")


def namespaces(manifests, _):
    for space in manifests.of("Namespace"):
        labels = space["metadata"].get("labels", {})
        if labels.get("pod-security.kubernetes.io/enforce") != "restricted":
            yield f"Namespace {space['metadata']['name']}: pod-security.kubernetes.io/enforce is not restricted"


def pods(manifests, _):
    for workload in manifests.workloads:
        pod, where = workload.pod, workload.name
        for field in ("hostNetwork", "hostPID", "hostIPC"):
            if pod.get(field):
                yield f"{where}: {field} is not allowed (restricted)"
        if pod.get("automountServiceAccountToken") is not False:
            yield f"{where}: automountServiceAccountToken is not false, and nothing in it talks to Kubernetes' API"
        if pod.get("enableServiceLinks") is not False:
            yield f"{where}: enableServiceLinks is not false: kerfd refuses the KERFD_ variables that a Service would make"
        context = pod.get("securityContext", {})
        if context.get("runAsNonRoot") is not True or context.get("runAsUser") != USER or context.get("fsGroup") != USER:
            yield f"{where}: securityContext must have runAsNonRoot, and {USER} as runAsUser and fsGroup: the images' user"
        if context.get("seccompProfile", {}).get("type") != "RuntimeDefault":
            yield f"{where}: securityContext.seccompProfile is not RuntimeDefault (restricted)"
        for volume in pod.get("volumes", []):
            if not _VOLUMES & set(volume):
                yield f"{where}: the volume {volume['name']} is of a kind that restricted forbids: {sorted(set(volume) - {'name'})}"
            if "secret" in volume and volume["secret"].get("defaultMode", 0o644) & ~_SECRET_MODE:
                yield f"{where}: the volume {volume['name']} has not defaultMode 0440: kerfd refuses secrets that others may read"


def containers(manifests, _):
    for workload in manifests.workloads:
        for container in workload.containers:
            where = f"{workload.name}, container {container['name']}"
            context = container.get("securityContext", {})
            if context.get("allowPrivilegeEscalation") is not False:
                yield f"{where}: allowPrivilegeEscalation is not false (restricted)"
            if context.get("capabilities") != {"drop": ["ALL"]}:
                yield f"{where}: capabilities are not dropped, all of them (restricted)"
            if context.get("privileged") or context.get("runAsUser", USER) != USER or context.get("procMount"):
                yield f"{where}: privileged, or another user (restricted)"
            if context.get("readOnlyRootFilesystem") is not True:
                yield f"{where}: readOnlyRootFilesystem is not true"
            for port in container.get("ports", []):
                if port.get("hostPort"):
                    yield f"{where}: hostPort is not allowed (restricted)"
            resources = container.get("resources", {})
            if not resources.get("limits", {}).get("memory") or not resources.get("requests", {}).get("cpu"):
                yield f"{where}: needs a limit of memory and a request of cpu"


def secrets(manifests, _):
    """As files, never in arguments or the environment, which others can list."""
    values = {value for thing in manifests.of("Secret") for value in thing.get("stringData", {}).values()}
    for workload in manifests.workloads:
        for container in workload.containers:
            where = f"{workload.name}, container {container['name']}"
            words = container.get("command", []) + container.get("args", [])
            for variable in container.get("env", []):
                if "secretKeyRef" in variable.get("valueFrom", {}):
                    yield f"{where}: {variable['name']} has a secret in the environment: mount it as a file"
                elif "value" in variable:
                    # --tls-key takes a file, whose mounting deploy/checks/programs.py looks at.
                    is_file = variable["name"].endswith(("_FILE", "_PATH")) or variable["name"] in ("KERFD_TLS_KEY", "KERF_TLS_KEY")
                    if not is_file and any(word in variable["name"].lower() for word in _SECRET_WORDS):
                        yield f"{where}: {variable['name']} looks like a secret in the environment: mount it as a file"
                    words.append(variable["value"])
            if any("secretRef" in source for source in container.get("envFrom", [])):
                yield f"{where}: envFrom puts a Secret into the environment: mount it as files"
            for word in words:
                if any(value and value in word for value in values):
                    yield f"{where}: what a Secret holds stands in its arguments or environment"


RULES = [namespaces, pods, containers, secrets]
