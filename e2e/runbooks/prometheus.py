"""What a kerfd or an exporter of Redis shows, and whether Prometheus' alerts fire of it: the rules of deploy/components, by the
word of promtool."""

import json
import pathlib
import re
import subprocess
import textwrap
import time

_COMPONENTS = pathlib.Path(__file__).resolve().parents[2] / "deploy/components"
_SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? ([^ ]+)$", re.MULTILINE)
_TYPE = re.compile(r"^# TYPE (\w+) (\w+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
# Of each series, as Prometheus labels what it scrapes on Kubernetes.
_NAMESPACE, _POD, _JOB_OF_REDIS = "kerf", "kerf-0", "kerf-redis"
_OF_REDIS = "redis_"
# Longer than any alert waits.
_LAST_MIN = 55
_ENDS_AT = "_expires_seconds"
TIMEOUT_S = 60


def value(text, name, **labels):
    """The sum of the samples that have these labels; 0 if there is none."""
    return sum(float(number) for metric, found, number in _SAMPLE.findall(text)
               if metric == name and labels.items() <= dict(_LABEL.findall(found)).items())


def _samples(state):
    """(pod, name, labels) -> value, of the texts of all pods."""
    return {(pod, name, labels): float(number) for pod, text in state.items() for name, labels, number in _SAMPLE.findall(text)}


def _labels(pod, name, labels):
    found = [labels] if labels else []
    found += [f'namespace="{_NAMESPACE}"', f'pod="{pod}"']
    if name.startswith(_OF_REDIS):
        found.append(f'job="{_JOB_OF_REDIS}"')
    return ",".join(found)


def _rules():
    """The groups of all rules, as Prometheus reads them: what stands below `spec`."""
    groups = []
    for path in sorted(_COMPONENTS.glob("*/alerts.yaml")):
        spec = path.read_text(encoding="utf-8").partition("\nspec:\n")[2]
        groups.append(textwrap.dedent(spec).partition("groups:\n")[2])
    return "groups:\n" + "".join(groups)


def _series(states, names):
    """A value a minute: those of `states`, of which the last one lasts; a counter grows on as it did last."""
    counters = {name for text in states[-1].values() for name, kind in _TYPE.findall(text) if kind == "counter"}
    tables = [_samples(state) for state in states]
    for key in sorted({key for table in tables for key in table}):
        pod, name, labels = key
        if name not in names:
            continue
        # promtool's clock begins at 0.
        base = time.time() if name.endswith(_ENDS_AT) else 0
        values = [repr(table[key] - base) if key in table else "_" for table in tables]
        last = tables[-1].get(key)
        if last is None:
            values.append(f"_x{_LAST_MIN}")
        else:
            before = tables[-2].get(key, 0) if len(tables) > 1 else last
            step = last - before if name in counters else 0
            values.append(f"{last + step - base!r}+{step!r}x{_LAST_MIN}")
        yield {"series": f"{name}{{{_labels(pod, name, labels)}}}", "values": " ".join(values)}


def fires(folder, alert, *states):
    """Whether it ever fires where kerfd shows `states`, a minute apart, and the last one from then on. Each is the text of
    /metrics, or that of each of several pods."""
    states = [{_POD: state} if isinstance(state, str) else state for state in states]
    rules = _rules()
    if f"alert: {alert}\n" not in rules:
        raise ValueError(f"there is no alert {alert}")
    (folder / "rules.yaml").write_text(rules, encoding="utf-8")
    names = set(re.findall(r"\b(?:kerf|process|redis)_\w+", rules))
    # At any time: restarts of a while ago are soon forgotten.
    expression = f'max(max_over_time(ALERTS{{alertname="{alert}",alertstate="firing"}}[{_LAST_MIN}m]))'
    expect = {"expr": expression, "eval_time": f"{_LAST_MIN}m", "exp_samples": [{"labels": "{}", "value": 1}]}
    test = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m",
            "tests": [{"interval": "1m", "input_series": list(_series(states, names)), "promql_expr_test": [expect]}]}
    # JSON is YAML.
    (folder / "test.yaml").write_text(json.dumps(test), encoding="utf-8")
    done = subprocess.run(["promtool", "test", "rules", "test.yaml"], cwd=folder, capture_output=True, text=True, check=False,
                          timeout=TIMEOUT_S)
    said = done.stdout + done.stderr
    if done.returncode != 0 and "got:" not in said:
        raise RuntimeError(said)
    return done.returncode == 0
