"""Dashboards, alerts and the autoscaler ask for metrics that kerfd shows (docs/metrics.md), by labels that these have."""

import json
import re

from manifests import name_of

_METRIC = re.compile(r"\b(?:kerf|process)_[a-z0-9_]+")
_SELECTION = re.compile(r"\b((?:kerf|process)_[a-z0-9_]+)\{([^}]*)\}")
_LABEL = re.compile(r"(\w+)\s*(?:=~|!=|!~|=)")
_PARTS_OF_HISTOGRAM = ("_bucket", "_sum", "_count")
# Prometheus puts these on whatever it scrapes.
_FROM_PROMETHEUS = {"namespace", "pod", "job", "instance", "service", "endpoint", "container", "le"}


def read_reference(path):
    """Metric -> (type, its labels), of docs/metrics.md."""
    metrics = {}
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if len(cells) >= 5 and re.fullmatch(r"`\w+`", cells[0]):
                metrics[cells[0].strip("`")] = cells[1], set(re.findall(r"`(\w+)`:", cells[4]))
    return metrics


def _expressions(manifests):
    for rules in manifests.of("PrometheusRule"):
        for group in rules["spec"]["groups"]:
            for rule in group["rules"]:
                yield f"{name_of(rules)}, {rule.get('alert') or rule.get('record')}", rule["expr"]
    for thing in manifests.of("ConfigMap"):
        for file, text in thing.get("data", {}).items():
            if thing["metadata"].get("labels", {}).get("grafana_dashboard") and file.endswith(".json"):
                for panel in json.loads(text)["panels"]:
                    for target in panel.get("targets", []):
                        yield f"{name_of(thing)}, panel '{panel['title']}'", target["expr"]
    for scaler in manifests.of("HorizontalPodAutoscaler"):
        for metric in scaler["spec"].get("metrics", []):
            if metric["type"] == "Pods":
                yield name_of(scaler), metric["pods"]["metric"]["name"]


def names(manifests, facts):
    for where, expression in _expressions(manifests):
        used = _METRIC.findall(expression)
        if not used:
            yield f"{where}: asks for no metric of kerfd: {expression}"
        for name in used:
            if _find(name, facts.metrics) is None:
                yield f"{where}: kerfd shows no metric {name} (docs/metrics.md)"
        for name, selection in _SELECTION.findall(expression):
            known = (_find(name, facts.metrics) or ("", set()))[1] | _FROM_PROMETHEUS
            for label in _LABEL.findall(selection):
                if label not in known:
                    yield f"{where}: {name} has no label {label} (docs/metrics.md)"


def _find(name, metrics):
    if name in metrics:
        # A histogram has no value of its own.
        return None if metrics[name][0] == "histogram" else metrics[name]
    for part in _PARTS_OF_HISTOGRAM:
        if name.endswith(part) and metrics.get(name.removesuffix(part), ("",))[0] == "histogram":
            return metrics[name.removesuffix(part)]
    return None


RULES = [names]
