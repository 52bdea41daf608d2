"""Backups by kerf itself: containers that say what it takes, keep what has to stay, and run one after another.

What kerf takes is read in docs/reference, which tools/site holds to the program.
"""

import re

import load

PROGRAM = "/usr/bin/kerf"
# In this order: what is forgotten is deleted, and nothing is forgotten that the newest backup does not follow.
_ORDER = ("backup", "forget", "gc")
_HEADING = re.compile(r"^## kerf ?(.*)$", re.M)
_FLAG = re.compile(r"^  (?:-\w,)?(--[a-z][a-z0-9-]*)", re.M)
_VARIABLE = re.compile(r"\(Env:(KERF_[A-Z_]+)\)")
# Not of kerf, and read by it: where it remembers stores.
_HOME = "HOME"
# Files that kerf reads, by its variables, and the key of the Secret that each is.
_TLS_FILES = {"KERF_TLS_CA": "ca.crt", "KERF_TLS_CERT": "tls.crt", "KERF_TLS_KEY": "tls.key"}


def read_references(folder):
    """({verb: flags}, variables)"""
    text = (folder / "kerf.md").read_text(encoding="utf-8")
    parts = _HEADING.split(text)[1:]
    flags = {verb.strip(): set(_FLAG.findall(page)) for verb, page in zip(parts[::2], parts[1::2], strict=True)}
    return flags, set(_VARIABLE.findall(text))


def _runs(manifests):
    for workload in manifests.workloads:
        for container in workload.containers:
            if container.get("command", [""])[0] == PROGRAM:
                yield workload, container, f"{workload.name}, container {container['name']}"


def _verb(container):
    return next((word for word in container.get("args", []) if not word.startswith("-")), "")


def words(manifests, facts):
    for _, container, where in _runs(manifests):
        verb = _verb(container)
        if verb not in facts.kerf_flags or not verb:
            yield f"{where}: kerf has no verb '{verb}'"
            continue
        for word in container["args"]:
            flag = word.partition("=")[0]
            if flag.startswith("-") and flag not in facts.kerf_flags[verb] | facts.kerf_flags[""]:
                yield f"{where}: kerf {verb} has no {flag}"
        for name in _environment(container):
            if name.startswith("KERF") and name not in facts.kerf_variables:
                yield f"{where}: kerf reads no variable {name}"


def _environment(container):
    return {variable["name"]: variable.get("value", "") for variable in container.get("env", [])}


def _volume_at(workload, container, path):
    """(the volume, its mount) in which that path lies, if any."""
    found = [mount for mount in container.get("volumeMounts", []) if f"{path}/".startswith(f"{mount['mountPath'].rstrip('/')}/")]
    if not found:
        return {}, {}
    mount = max(found, key=lambda one: len(one["mountPath"]))
    return workload.volumes.get(mount["name"], {}), mount


def places(manifests, _):
    """The store and what kerf remembers stay; what is backed up is not written to; certificates are there."""
    for workload, container, where in _runs(manifests):
        environment = _environment(container)
        for name in ("KERF_STORE", _HOME):
            volume, mount = _volume_at(workload, container, environment.get(name, "/"))
            if "persistentVolumeClaim" not in volume or mount.get("readOnly") or volume["persistentVolumeClaim"].get("readOnly"):
                yield f"{where}: {name} is '{environment.get(name, '')}', where nothing stays that is written"
        for name, key in _TLS_FILES.items():
            found = manifests.file(workload, container, environment.get(name, "/"))
            if found is None or found[2] != key:
                yield f"{where}: {name} is '{environment.get(name, '')}', where no {key} of a Secret is mounted"
        if environment.get("KERF_SERVER") != load.FRONTS:
            yield f"{where}: KERF_SERVER is '{environment.get('KERF_SERVER', '')}', and the fronts are at {load.FRONTS}"
        for path in container.get("args", [])[container.get("args", []).index("backup") + 1:] if _verb(container) == "backup" else ():
            volume, mount = _volume_at(workload, container, path)
            if path.startswith("/") and not (mount.get("readOnly") and volume.get("persistentVolumeClaim", {}).get("readOnly")):
                yield f"{where}: {path} is not read-only, in the mount and in the volume: its files would become those of the pod's group"


def order(manifests, _):
    for workload in {run[0].name: run[0] for run in _runs(manifests)}.values():
        verbs = [_verb(container) for container in workload.containers]
        if verbs != sorted(verbs, key=lambda verb: _ORDER.index(verb) if verb in _ORDER else -1) or len(workload.pod["containers"]) != 1:
            yield f"{workload.name}: {', '.join(verbs)} run at once, or not in the order {', '.join(_ORDER)}: all but the last are initContainers"
        if workload.thing["kind"] != "CronJob":
            yield f"{workload.name}: is no CronJob, so that it runs once"
            continue
        spec = workload.thing["spec"]
        if spec.get("concurrencyPolicy") != "Forbid":
            yield f"{workload.name}: concurrencyPolicy is not Forbid: two nights would collect one store at once"
        if workload.pod.get("restartPolicy") != "Never" or spec["jobTemplate"]["spec"].get("backoffLimit") != 0:
            yield f"{workload.name}: what has failed would run again at once, and say so to nobody: restartPolicy Never and backoffLimit 0"


def agents(manifests, _):
    for workload, _, where in _runs(manifests):
        yield from load.let_in(manifests, workload, where)


RULES = [words, places, order, agents]
