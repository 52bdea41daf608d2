"""Dashboards, alerts and the autoscaler ask for metrics that kerfd (kerfd --print-metrics) or the exporter beside Redis shows,
by labels that these have.
"""

import json
import re

import promql_parser

import redis_metrics
from manifests import name_of

_METRIC = re.compile(r"\b(?:kerf|process|redis)_[a-z0-9_]+")
_SELECTION = re.compile(r"\b((?:kerf|process|redis)_[a-z0-9_]+)\{([^}]*)\}")
_LABEL = re.compile(r"(\w+)\s*(?:=~|!=|!~|=)")
_PARTS_OF_HISTOGRAM = ("_bucket", "_sum", "_count")
# Prometheus puts these on whatever it scrapes.
_FROM_PROMETHEUS = {"namespace", "pod", "job", "instance", "service", "endpoint", "container", "le"}


# Grafana puts values in their place.
_GRAFANA = {"$__rate_interval": "1m", "$namespace": "kerf"}


def read_reference(text):
    """Metric -> (type, its labels), of what kerfd --print-metrics says."""
    metrics = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) >= 5 and re.fullmatch(r"`\w+`", cells[0]):
            metrics[cells[0].strip("`")] = cells[1], set(re.findall(r"`(\w+)`:", cells[4]))
    return metrics


def _mistake(expression):
    for name, value in _GRAFANA.items():
        expression = expression.replace(name, value)
    try:
        promql_parser.parse(expression)
    except ValueError as error:
        return str(error)
    return ""


def _pod_metrics(scaler):
    return [metric["pods"]["metric"]["name"] for metric in scaler["spec"].get("metrics", []) if metric["type"] == "Pods"]


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
        for name in _pod_metrics(scaler):
            yield name_of(scaler), name


def names(manifests, facts):
    for where, expression in _expressions(manifests):
        if mistake := _mistake(expression):
            yield f"{where}: Prometheus cannot read '{expression}': {mistake}"
        shown = {**facts.metrics, **redis_metrics.SHOWN}
        # What is in quotes is a label's value.
        used = _METRIC.findall(re.sub(r'"[^"]*"', '""', expression))
        if not used:
            yield f"{where}: asks for no metric of kerfd: {expression}"
        for name in used:
            if _find(name, shown) is None:
                yield f"{where}: kerfd shows no metric {name} (docs/metrics.md)"
        for name, selection in _SELECTION.findall(expression):
            known = (_find(name, shown) or ("", set()))[1] | _FROM_PROMETHEUS
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


def adapter(manifests, facts):
    for scaler in manifests.of("HorizontalPodAutoscaler"):
        for name in _pod_metrics(scaler):
            if f"as: {name}\n" not in facts.adapter_rules or f"({name}{{" not in facts.adapter_rules:
                yield f"{name_of(scaler)}: components/autoscaling/adapter-rules.yaml brings no {name} to Kubernetes"


RULES = [names, adapter]
