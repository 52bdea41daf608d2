#!/usr/bin/env python3
"""What NetworkPolicies mean, by small cases whose answers are written out, and the rules that come of them."""

import os
import pathlib
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).absolute().parent))

from packet_filter import rules
from policies import Pod, is_allowed, judge, matches, running_pods, unsupported

NAMESPACES = {"shop": {"kubernetes.io/metadata.name": "shop"},
              "away": {"kubernetes.io/metadata.name": "away", "team": "blue"}}
# The same name is another port in each of them.
FRONT = Pod("shop", "front", "10.77.1.2", {"app": "front"}, {("web", "TCP"): 80, ("web", "UDP"): 81})
STORE = Pod("shop", "store", "10.77.1.3", {"app": "store"}, {("web", "TCP"): 8080})
GUEST = Pod("away", "guest", "10.77.2.2", {"app": "front"}, {})
PLAIN = Pod("away", "plain", "10.77.2.3", {}, {})
PODS = [FRONT, STORE, GUEST, PLAIN]
OUTSIDE = "10.79.0.1"


def policy(select, types=None, ingress=None, egress=None, name="one"):
    spec = {"podSelector": {"matchLabels": select} if select else {}}
    for key, value in (("policyTypes", types), ("ingress", ingress), ("egress", egress)):
        if value is not None:
            spec[key] = value
    return {"metadata": {"name": name, "namespace": "shop"}, "spec": spec}


def app(name):
    return {"podSelector": {"matchLabels": {"app": name}}}


class Meaning(unittest.TestCase):
    def passes(self, policies, source, target, port=80, protocol="TCP"):
        return is_allowed(judge(policies, PODS, NAMESPACES), source, target, protocol, port)

    def test_without_a_policy_everything_passes(self):
        self.assertTrue(self.passes([], PLAIN, FRONT))

    def test_a_policy_shuts_what_it_selects_in_its_direction_alone(self):
        shut = [policy({"app": "front"}, ["Ingress"])]
        self.assertFalse(self.passes(shut, STORE, FRONT))
        self.assertTrue(self.passes(shut, FRONT, STORE))
        self.assertTrue(self.passes(shut, FRONT, FRONT))
        # Of another namespace, with the same label.
        self.assertTrue(self.passes(shut, STORE, GUEST))

    def test_an_empty_selector_is_every_pod_of_the_namespace(self):
        shut = [policy({}, ["Egress"])]
        self.assertFalse(self.passes(shut, FRONT, PLAIN))
        self.assertFalse(self.passes(shut, STORE, PLAIN))
        self.assertTrue(self.passes(shut, GUEST, PLAIN))

    def test_types_that_are_not_named(self):
        self.assertTrue(self.passes([policy({"app": "front"}, ingress=[])], FRONT, STORE))
        self.assertFalse(self.passes([policy({"app": "front"}, egress=[{"to": [app("nobody")]}])], FRONT, STORE))
        self.assertFalse(self.passes([policy({"app": "front"})], STORE, FRONT))

    def test_policies_add_up(self):
        both = [policy({}, ["Ingress"]), policy({"app": "store"}, ["Ingress"], [{"from": [app("front")]}])]
        for policies in (both, both[::-1]):
            self.assertTrue(self.passes(policies, FRONT, STORE, 8080))
            self.assertFalse(self.passes(policies, STORE, FRONT))

    def test_both_ends_must_agree(self):
        let_in = policy({"app": "store"}, ["Ingress"], [{"from": [app("front")]}])
        shut_in = policy({"app": "front"}, ["Egress"])
        self.assertTrue(self.passes([let_in], FRONT, STORE))
        self.assertFalse(self.passes([let_in, shut_in], FRONT, STORE))

    def test_a_pod_selector_means_the_policys_own_namespace(self):
        self.assertFalse(self.passes([policy({"app": "store"}, ["Ingress"], [{"from": [app("front")]}])], GUEST, STORE))

    def test_selectors_of_one_peer_must_both_hold_and_of_two_either(self):
        blue = {"namespaceSelector": {"matchLabels": {"team": "blue"}}}
        one = [policy({"app": "store"}, ["Ingress"], [{"from": [{**blue, **app("front")}]}])]
        two = [policy({"app": "store"}, ["Ingress"], [{"from": [blue, app("front")]}])]
        for source, with_one, with_two in ((GUEST, True, True), (PLAIN, False, True), (FRONT, False, True)):
            self.assertEqual(self.passes(one, source, STORE), with_one, source)
            self.assertEqual(self.passes(two, source, STORE), with_two, source)

    def test_an_empty_rule_is_everything_and_no_rule_is_nothing(self):
        self.assertTrue(self.passes([policy({"app": "store"}, ["Ingress"], [{}])], PLAIN, STORE))
        self.assertFalse(self.passes([policy({"app": "store"}, ["Ingress"], [])], PLAIN, STORE))

    def test_ports_and_protocols(self):
        some = [policy({"app": "store"}, ["Ingress"], [{"ports": [{"port": 5, "endPort": 7}, {"protocol": "UDP"}]}])]
        for port, protocol, passes in ((4, "TCP", False), (5, "TCP", True), (7, "TCP", True), (8, "TCP", False),
                                       (4, "UDP", True), (5, "SCTP", False)):
            self.assertEqual(self.passes(some, FRONT, STORE, port, protocol), passes, (port, protocol))

    def test_a_name_is_the_port_of_the_pod_that_is_reached(self):
        web = [{"port": "web"}]
        let_in = [policy({}, ["Ingress"], [{"ports": web}])]
        let_out = [policy({}, ["Egress"], egress=[{"to": [{"podSelector": {}}], "ports": web}])]
        for policies in (let_in, let_out):
            self.assertTrue(self.passes(policies, FRONT, STORE, 8080))
            self.assertFalse(self.passes(policies, FRONT, STORE, 80))
            self.assertTrue(self.passes(policies, STORE, FRONT, 80))
            # Its name stands for TCP's there.
            self.assertFalse(self.passes(policies, STORE, FRONT, 81, "UDP"))

    def test_a_name_that_nobody_has_is_no_port(self):
        self.assertFalse(self.passes([policy({}, ["Ingress"], [{"ports": [{"port": "ftp"}]}])], STORE, FRONT, 21))
        self.assertFalse(self.passes([policy({}, ["Egress"], egress=[{"ports": [{"port": "ftp"}]}])], STORE, FRONT, 21))

    def test_to_whom_a_rule_does_not_name_is_also_outside(self):
        judged = judge([policy({"app": "front"}, ["Egress"], egress=[{"ports": [{"port": 443}, {"port": "web"}]}])],
                       PODS, NAMESPACES)
        grants = judged[FRONT, "Egress"]
        self.assertTrue(any(grant.allows(OUTSIDE, "TCP", 443) for grant in grants))
        self.assertFalse(any(grant.allows(OUTSIDE, "TCP", 8080) for grant in grants))
        self.assertTrue(any(grant.allows(STORE.address, "TCP", 8080) for grant in grants))

    def test_blocks(self):
        block = {"ipBlock": {"cidr": "10.77.0.0/16", "except": ["10.77.2.0/24"]}}
        some = [policy({"app": "store"}, ["Ingress"], [{"from": [block]}])]
        self.assertTrue(self.passes(some, FRONT, STORE))
        self.assertFalse(self.passes(some, GUEST, STORE))

    def test_what_is_not_carried_out_is_said_and_shuts(self):
        six = policy({"app": "store"}, ["Ingress"], [{"from": [{"ipBlock": {"cidr": "fd00::/8"}}, app("front")]}])
        named = policy({"app": "front"}, ["Egress"], egress=[
            {"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}], "ports": [{"port": "web"}]}])
        self.assertRegex(" ".join(unsupported(six)), "IPv6")
        self.assertRegex(" ".join(unsupported(named)), "port web")
        self.assertFalse(self.passes([six], FRONT, STORE))
        self.assertFalse(self.passes([named], FRONT, STORE))

    def test_expressions(self):
        for operator, values, here, elsewhere, without in (
                ("In", ["a", "b"], True, False, False), ("NotIn", ["a"], False, True, True),
                ("Exists", None, True, True, False), ("DoesNotExist", None, False, False, True)):
            selector = {"matchExpressions": [{"key": "k", "operator": operator, **({"values": values} if values else {})}]}
            self.assertEqual([matches(selector, labels) for labels in ({"k": "a"}, {"k": "c"}, {})],
                             [here, elsewhere, without], operator)


class Pods(unittest.TestCase):
    def test_who_has_an_address_of_his_own(self):
        def pod(name, **more):
            return {"metadata": {"name": name, "namespace": "shop"}, "spec": {
                "containers": [{"ports": [{"name": "web", "containerPort": 80}]}], **more.pop("spec", {})},
                "status": {"podIP": "10.77.1.9", "phase": "Running", **more}}

        objects = [pod("runs"), pod("done", phase="Succeeded"), pod("broken", phase="Failed"), pod("new", podIP=""),
                   pod("of-the-node", spec={"hostNetwork": True}),
                   pod("side", spec={"initContainers": [{"ports": [{"name": "x", "protocol": "UDP", "containerPort": 9}]}]})]
        self.assertEqual([pod.name for pod in running_pods(objects)], ["runs", "side"])
        self.assertEqual(list(running_pods(objects))[1].ports, {("web", "TCP"): 80, ("x", "UDP"): 9})


class Rules(unittest.TestCase):
    POLICIES = [
        policy({}, ["Ingress", "Egress"], name="deny"),
        policy({"app": "store"}, ["Ingress"], [{"from": [app("front")], "ports": [
            {"port": "web"}, {"port": 5, "endPort": 7}, {"protocol": "UDP"}]}], name="store"),
        policy({"app": "front"}, ["Egress"], egress=[{"to": [app("store")]}, {"to": [app("nobody")]}], name="front"),
        policy({"app": "front"}, ["Ingress"], [{"from": [
            {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16", "10.1.2.0/24"]}}]}, {}], name="n" * 253)]

    def text(self):
        return rules(judge(self.POLICIES, PODS, NAMESPACES), PODS, "10.77.0.0/16")

    def test_each_grant_is_a_rule_and_each_chain_ends_shut(self):
        lines = [line.strip() for line in self.text().splitlines()]
        store = lines.index("chain ingress_1 {")
        self.assertEqual(lines[store:store + 7], [
            "chain ingress_1 {", "# shop/store",
            'ip saddr { 10.77.1.2 } tcp dport 5-7 accept comment "store"',
            'ip saddr { 10.77.1.2 } meta l4proto udp accept comment "store"',
            'ip saddr { 10.77.1.2 } tcp dport { 8080 } accept comment "store"', "drop", "}"])
        front = lines.index("chain egress_0 {")
        self.assertEqual(lines[front:front + 5], [
            "chain egress_0 {", "# shop/front", 'ip daddr { 10.77.1.3 } return comment "front"', "drop", "}"])
        for direction in ("ingress", "egress"):
            self.assertEqual(lines[lines.index(f"chain {direction} {{") + 2], "drop")

    def test_a_pod_that_no_policy_selects_is_let_through(self):
        self.assertIn("ip saddr vmap { 10.77.1.2 : goto egress_0, 10.77.1.3 : goto egress_1, 10.77.2.2 : return, "
                      "10.77.2.3 : return }", self.text())

    def test_both_directions_are_judged_behind_what_answers(self):
        lines = [line.strip() for line in self.text().splitlines()]
        forward, into = lines.index("chain forward {"), lines.index("chain input {")
        self.assertEqual(lines[forward + 1:forward + 6], [
            "type filter hook forward priority filter; policy drop;", "ct state established,related accept",
            "ip saddr 10.77.0.0/16 jump egress", "jump ingress", "}"])
        self.assertEqual(lines[into + 1:into + 7], [
            "type filter hook input priority filter; policy accept;", "iifname lo accept",
            "ct state established,related accept", "meta nfproto ipv6 drop", "jump egress", "}"])

    def test_nobody_is_known_at_first(self):
        self.assertNotIn("vmap", rules({}, [], "10.77.0.0/16"))

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("nft"), "nft, and root for a network of its own")
    def test_the_kernel_takes_them(self):
        for text in (rules({}, [], "10.77.0.0/16"), self.text() + self.text()):
            done = subprocess.run(["unshare", "--net", "nft", "--file", "-"], input=text, capture_output=True, text=True,
                                  check=False)
            self.assertEqual(done.returncode, 0, f"{text}\n{done.stderr}")


if __name__ == "__main__":
    unittest.main()
