"""The load test's pods: agents that kerf's policies let in, with a scenario, service levels and options that
loadtest/run.py takes. The run.py at hand is asked, as kerfd is for its own settings.
"""

import functools
import json
import pathlib
import subprocess
import tempfile

PROGRAM = "/usr/lib/kerf/loadtest/run.py"
# What the overlay's addresses lead to, and what opens the fronts (base/network-policies.yaml).
FRONTS = "kerf.kerf:7461"
_SCENARIO_PLACE, _SLO_FLAG = "{scenario}", "--slo="


@functools.lru_cache(maxsize=64)
def _ask(program, scenario, slo, words):
    """(effective settings, or None; what it says). Asked once for each difference: it takes half a second."""
    with tempfile.TemporaryDirectory(prefix="kerf-deploy-") as name:
        folder = pathlib.Path(name)
        (folder / "scenario.toml").write_text(scenario, encoding="utf-8")
        (folder / "slo.toml").write_text(slo, encoding="utf-8")
        told = [str(folder / "scenario.toml") if word == _SCENARIO_PLACE else word for word in words]
        done = subprocess.run([*program, *told, f"{_SLO_FLAG}{folder / 'slo.toml'}", "--print-settings"],
                              capture_output=True, text=True, check=False, timeout=60)
    if done.returncode != 0:
        return None, done.stderr.strip().splitlines()[-1]
    return json.loads(done.stdout), ""


def _mounted(manifests, workload, container, path):
    found = manifests.file(workload, container, path)
    thing = found and manifests.get(found[0], found[1])
    return (thing or {}).get("data", {}).get(found[2]) if found else None


def _runs(manifests):
    for workload in manifests.workloads:
        for container in workload.containers:
            if PROGRAM in container.get("command", []):
                yield workload, container, f"{workload.name}, container {container['name']}"


def _settings(manifests, facts, workload, container):
    """(effective settings or None, what is wrong)"""
    words, problems, texts = [], [], {"scenario": None, "slo": None}
    for word in container["command"][container["command"].index(PROGRAM) + 1:] + container.get("args", []):
        # The first word that is no option is the scenario, as run.py reads it.
        key = "slo" if word.startswith(_SLO_FLAG) else "scenario" if not word.startswith("-") else None
        if key is None:
            words.append(word)
            continue
        path = word.removeprefix(_SLO_FLAG)
        texts[key] = _mounted(manifests, workload, container, path)
        if texts[key] is None:
            problems.append(f"nothing is mounted as {path}")
        if key == "scenario":
            words.append(_SCENARIO_PLACE)
    problems += [f"has no {key}" for key, text in texts.items() if text is None and not problems]
    if problems:
        return None, problems
    effective, said = _ask(facts.load_program, texts["scenario"], texts["slo"], tuple(words))
    return effective, [said] if effective is None else []


def _option(effective, name):
    command = effective["locust"]
    return command[command.index(name) + 1] if name in command else None


def settings(manifests, facts):
    masters, workers = [], []
    for workload, container, where in _runs(manifests):
        effective, problems = _settings(manifests, facts, workload, container)
        for problem in problems:
            yield f"{where}: {problem}"
        if effective is None:
            continue
        if effective["target"]["addresses"] != [FRONTS]:
            yield f"{where}: the addresses are {effective['target']['addresses']}, and the fronts are at {FRONTS}"
        if not effective["target"]["shard_key_metadata"]:
            yield f"{where}: target.shard_key_metadata is not set: fronts could not spread what comes without a key"
        deadline_s = workload.thing["spec"].get("activeDeadlineSeconds", float("inf"))
        if deadline_s <= effective["load"]["time_s"]:
            yield f"{where}: activeDeadlineSeconds is {deadline_s}, and the load takes {effective['load']['time_s']:g} s"
        if _option(effective, "--master-bind-port"):
            masters.append((workload, container, effective, where))
        elif _option(effective, "--master-host"):
            workers.append((workload, effective, where))
        else:
            yield f"{where}: is neither --master nor --worker"
    yield from _check_parts(manifests, masters, workers)


def _check_parts(manifests, masters, workers):
    if not masters and not workers:
        return
    if len(masters) != 1 or len(workers) != 1:
        yield f"a load test has one master and one Deployment of workers, not {len(masters)} and {len(workers)}"
        return
    (master, container, leading, where), (worker, following, worker_where) = masters[0], workers[0]
    own = {port["name"]: port["containerPort"] for port in container.get("ports", [])}
    port = int(_option(leading, "--master-bind-port"))
    if own.get("locust") != port:
        yield f"{where}: Locust's master listens at {port}, and its port locust is {own.get('locust')}"
    host, told = _option(following, "--master-host"), int(_option(following, "--master-port"))
    service = manifests.get("Service", host)
    if service is None or told not in [entry["port"] for entry in service["spec"]["ports"]]:
        yield f"{worker_where}: the master is at {host}:{told}, which no Service has"
    elif [one.name for one in manifests.selected({"matchLabels": service["spec"]["selector"]})] != [master.name]:
        yield f"{worker_where}: the Service {host} does not lead to {master.name}"
    if int(_option(leading, "--expect-workers")) > worker.thing["spec"].get("replicas", 1):
        yield (f"{where}: waits for {_option(leading, '--expect-workers')} workers, and {worker.name} has "
               f"{worker.thing['spec'].get('replicas', 1)}")
    if "--reports-to-log" not in container["args"]:
        yield f"{where}: without --reports-to-log nobody could fetch the reports of a pod that has ended"
    if master.pod.get("restartPolicy") != "Never" or master.thing["spec"].get("backoffLimit") != 0:
        yield f"{where}: would run again after a verdict: restartPolicy Never and backoffLimit 0"


def agents(manifests, _):
    for workload, _, where in _runs(manifests):
        yield from let_in(manifests, workload, where)


def let_in(manifests, workload, where):
    """What is wrong with an agent's labels."""
    space = manifests.get("Namespace", workload.thing["metadata"].get("namespace"))
    labels = (space or {}).get("metadata", {}).get("labels", {})
    if labels.get("kerf-agents") != "true" or workload.labels.get("kerf-agent") != "true":
        yield f"{where}: fronts let nobody in without kerf-agent on the pod, and kerf-agents on its namespace"


RULES = [settings, agents]
