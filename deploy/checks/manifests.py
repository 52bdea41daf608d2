"""The objects of one rendered overlay, and the questions that several rules ask about them."""

import dataclasses
import re

import yaml

_SUFFIXES = {"": 1, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12,
             "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
QUANTITY = re.compile(r"^([0-9]+(?:\.[0-9]+)?)(m|k|M|G|T|Ki|Mi|Gi|Ti|)$")


def quantity(value):
    """A quantity of Kubernetes as a number; None if it is none."""
    match = QUANTITY.match(str(value))
    return float(match[1]) * _SUFFIXES[match[2]] if match else None


def name_of(thing):
    return f"{thing['kind']} {thing['metadata']['name']}"


def matches(selector, labels):
    """Whether a label selector takes `labels`. Only matchLabels is in use, and anything else is refused by the rules."""
    wanted = (selector or {}).get("matchLabels", {})
    return all(labels.get(key) == value for key, value in wanted.items())


def _job_of(thing):
    """What a CronJob makes each time; anything else is that itself."""
    return thing.get("spec", {}).get("jobTemplate", thing)


@dataclasses.dataclass
class Workload:
    thing: dict

    @property
    def name(self):
        return name_of(self.thing)

    @property
    def template(self):
        return _job_of(self.thing)["spec"]["template"]

    @property
    def labels(self):
        return self.template["metadata"].get("labels", {})

    @property
    def component(self):
        return self.labels.get("app.kubernetes.io/component", "")

    @property
    def pod(self):
        return self.template["spec"]

    @property
    def containers(self):
        return self.pod.get("initContainers", []) + self.pod["containers"]

    @property
    def ports(self):
        """By name."""
        return {port["name"]: port["containerPort"] for container in self.containers for port in container.get("ports", [])}

    def has_port(self, port):
        return port in self.ports if isinstance(port, str) else port in self.ports.values()

    @property
    def volumes(self):
        claims = [{"name": claim["metadata"]["name"], "claim": claim}
                  for claim in self.thing["spec"].get("volumeClaimTemplates", [])]
        return {volume["name"]: volume for volume in self.pod.get("volumes", []) + claims}


class Manifests:
    def __init__(self, things):
        self.things = things
        self.workloads = [Workload(thing) for thing in things if "template" in _job_of(thing).get("spec", {})]

    def of(self, kind):
        return [thing for thing in self.things if thing["kind"] == kind]

    def get(self, kind, name):
        return next((thing for thing in self.of(kind) if thing["metadata"]["name"] == name), None)

    def selected(self, selector):
        return [workload for workload in self.workloads if matches(selector, workload.labels)]

    def file(self, workload, container, path):
        """(kind, object name, key) of what is mounted at `path` in the container; None if nothing is."""
        for mount in container.get("volumeMounts", []):
            volume = workload.volumes.get(mount["name"], {})
            folder = mount["mountPath"].rstrip("/")
            if mount.get("subPath"):
                key = mount["subPath"] if folder == path else None
            else:
                key = path[len(folder) + 1:] if path.startswith(folder + "/") else None
            if key is None:
                continue
            for kind, field, name_field in (("ConfigMap", "configMap", "name"), ("Secret", "secret", "secretName")):
                if source := volume.get(field):
                    items = {item["path"]: item["key"] for item in source.get("items", [])}
                    return kind, source[name_field], items.get(key) if items else key
        return None


def parse(text):
    return Manifests([thing for thing in yaml.load_all(text, Loader=yaml.CSafeLoader) if thing])
