"""Faults of NetworkPolicies, planted one after another in a cluster that runs: network_trial.py must see each of them.

So a policy that nobody tries fails here, also one that is added later.
"""

import contextlib
import copy
import json
import os
import signal

import network_trial
import pods
from network_trial import AGENTS, FOLLOW_S, GUARDED, HERE, LOAD, should_pass
from policies import EGRESS, FIELDS, INGRESS, matches
from processes import Failed, wait_until

NOBODY = {"matchLabels": {"no": "body"}}
NOBODYS_PORT = {"protocol": "TCP", "port": network_trial.PORTS["other"][1]}
# Without them the same passes: what else keeps it shut, or lets it through.
HARMLESS = {
    # `names` selects every pod for egress, too, and so shuts it.
    (HERE, "default-deny", "no Egress"), (LOAD, "default-deny", "no Egress"),
}


def follow(trial):
    """A pod that is new, and labels that change: rules are there at once."""
    here = next(one for one in trial.actors if one.kind == "agent in kerf's namespace")
    with _held(trial.keeper):
        renewed = _renew(trial, here)
        # So that it is the rules that are missing, and nobody who listens.
        if trial.wrong(trial.pairs(lambda source, target, _: (source.kind, target) == (network_trial.NODE, renewed))):
            raise Failed(f"{renewed} does not answer the node")
        allowed = list(trial.pairs(lambda source, target, port: source is renewed and should_pass(source, target, port)))
        if len(trial.wrong(allowed)) < len(allowed):
            raise Failed(f"{renewed} was let out before the rules knew of it")
    said = [f"a new pod {_about(trial, renewed, 'a new pod to be let through'):.1f} s"]
    agent = next(one for one in trial.actors if one.kind == "agent")
    for what, like, command in (
            ("its label", "pod beside agents", [f"--namespace={AGENTS}", "label", "pod", network_trial.pod_name("agent")]),
            ("its namespace's label", "self-styled agent", ["label", "namespace", AGENTS])):
        label = "kerf-agent" if what == "its label" else "kerf-agents"
        for change, kind in ((f"{label}-", like), (f"{label}=true", "agent")):
            trial.plane.kubectl(*command, change)
            agent.kind = kind
            said.append(f"{what} {'gone' if change.endswith('-') else 'back'} {_about(trial, agent, f'the rules after {change}'):.1f} s")
    print(f"  rules follow within: {', '.join(said)}", flush=True)


@contextlib.contextmanager
def _held(keeper):
    """Nobody sees to the rules meanwhile."""
    os.killpg(keeper, signal.SIGSTOP)
    try:
        yield
    finally:
        os.killpg(keeper, signal.SIGCONT)


def _renew(trial, actor):
    """Another pod in place of a stand-in."""
    name = network_trial.pod_name(actor.kind)
    actor.end()
    trial.plane.kubectl(f"--namespace={actor.namespace}", "delete", "pod", name)
    pods.create(trial.plane, [network_trial.stand_in(actor.kind)])
    renewed = trial.actor(actor.kind, pods.wait_running(trial.plane, actor.namespace, name))
    trial.actors[trial.actors.index(actor)] = renewed
    trial.start(renewed)
    return renewed


def _about(trial, actor, what):
    return trial.wait_right(trial.pairs(lambda source, target, _: actor in (source, target)), what, is_brief=True)


def _broken(policy, change):
    changed = copy.deepcopy(policy)
    change(changed["spec"])
    return changed


def faults_of_policy(policy):
    """(what is wrong with it, the policy with that, or None for none at all)."""
    yield "deleted", None
    if policy["spec"]["podSelector"]:
        yield "selects nobody", _broken(policy, lambda spec: spec.update(podSelector=NOBODY))
    kinds = policy["spec"]["policyTypes"]
    for kind in kinds if len(kinds) > 1 else []:
        yield f"no {kind}", _broken(policy, lambda spec, kind=kind: spec["policyTypes"].remove(kind))
    if {"ingress", "egress"} & set(policy["spec"]):
        yield "ingress and egress changed for each other", _broken(policy, _swap)


def faults_of_rules(policy, direction):
    """The same, of what it allows in a direction."""
    field, peers = FIELDS[direction]
    for index, rule in enumerate(policy["spec"].get(field, [])):
        def in_rule(change, index=index):
            return _broken(policy, lambda spec: change(spec[field][index]))

        where = f"{field} {index}"
        yield f"{where}: any port", in_rule(lambda one: one.pop("ports"))
        yield f"{where}: another port", in_rule(lambda one: one["ports"].append(NOBODYS_PORT))
        yield f"{where}: anybody", in_rule(lambda one: one.pop(peers))
        for at in range(len(rule["ports"])):
            yield f"{where}: port {at} is not there", in_rule(
                lambda one, at=at: one.update(ports=_without(one["ports"], at) or [NOBODYS_PORT]))
        for at, peer in enumerate(rule[peers]):
            yield f"{where}: peer {at} is not there", in_rule(
                lambda one, at=at: one.update({peers: _without(one[peers], at) or [{"podSelector": NOBODY}]}))
            for selector in peer:
                yield f"{where}: any {selector} of peer {at}", in_rule(
                    lambda one, at=at, selector=selector: one[peers][at].update({selector: {}}))
            if "namespaceSelector" not in peer:
                yield f"{where}: peer {at} of any namespace", in_rule(
                    lambda one, at=at: one[peers][at].update(namespaceSelector={}))


def _without(some, index):
    return some[:index] + some[index + 1:]


def _swap(spec):
    old = {kind: spec.pop(field, None) for kind, (field, _) in FIELDS.items()}
    for kind, other in ((INGRESS, EGRESS), (EGRESS, INGRESS)):
        if old[other] is not None:
            spec[FIELDS[kind][0]] = [{FIELDS[kind][1]: rule[FIELDS[other][1]], "ports": rule["ports"]} for rule in old[other]]
    spec["policyTypes"] = [EGRESS if kind == INGRESS else INGRESS for kind in spec["policyTypes"]]


def plant(trial, is_all):
    """How many; each policy is deleted, and the rest only if all are wanted, for that takes minutes. Failed tells of those
    that were not seen."""
    seen, unseen = 0, []

    def plant_in(policy, some):
        nonlocal seen
        namespace, name = policy["metadata"]["namespace"], policy["metadata"]["name"]
        # What changes passes at a pod of the policy's; all others would cost time alone.
        own = {id(actor) for actor in trial.actors
               if actor.namespace == namespace and matches(policy["spec"]["podSelector"], actor.labels)}
        pairs = list(trial.pairs(lambda source, target, _: id(source) in own or id(target) in own))
        for what, changed in some:
            if (namespace, name, what) in HARMLESS or not (is_all or changed is None):
                continue
            if _is_seen(trial, pairs, policy, changed):
                seen += 1
            else:
                unseen.append(f"{namespace}/{name}: {what}")

    policies = _policies(trial.plane)
    for policy in policies:
        plant_in(policy, faults_of_policy(policy))
    # Each end by itself: where both are shut, either hides what is wrong with the other.
    for direction, other in ((EGRESS, INGRESS), (INGRESS, EGRESS)):
        with trial.open(other):
            print(f"  {trial.check()} connections with {other.lower()} open", flush=True)
            for policy in policies:
                plant_in(policy, faults_of_rules(policy, direction))
    if unseen:
        raise Failed("faults of NetworkPolicies that the trial does not see:\n" + "\n".join(unseen))
    return seen


def _policies(plane):
    found = []
    for namespace in GUARDED:
        said = plane.kubectl(f"--namespace={namespace}", "get", "networkpolicies", "--output=json").stdout
        found += json.loads(said)["items"]
    for policy in found:
        for key in ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"):
            policy["metadata"].pop(key, None)
    return found


def _is_seen(trial, pairs, policy, changed):
    namespace, name = policy["metadata"]["namespace"], policy["metadata"]["name"]
    try:
        if changed is None:
            trial.plane.kubectl(f"--namespace={namespace}", "delete", "networkpolicy", name)
        else:
            trial.plane.kubectl("replace", "--validate=false", "--filename=-", stdin=json.dumps(changed))
        try:
            wait_until(lambda: trial.wrong(pairs, is_brief=True), FOLLOW_S, f"a fault of {namespace}/{name} to be seen")
            return True
        except Failed:
            return False
    finally:
        trial.plane.kubectl("create" if changed is None else "replace", "--validate=false", "--filename=-",
                            stdin=json.dumps(policy))
        wait_until(lambda: not trial.wrong(pairs, is_brief=True), FOLLOW_S, f"{namespace}/{name} to hold again")
