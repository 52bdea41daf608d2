#!/usr/bin/env python3
"""The alerts of components/monitoring and redis-metrics, held to series of values by promtool (Debian's package prometheus): each fires when it
should, with these labels and words, not a moment before, and not on what is well.

usage: alerts_test.py   with the Python of deploy/check
"""

import copy
import dataclasses
import json
import pathlib
import subprocess
import sys
import tempfile

import yaml

COMPONENTS = pathlib.Path(__file__).resolve().parent.parent / "components"
TIMEOUT_S = 60
# Longer than any alert waits; the series of silent ones last longer.
SILENT_MIN = 40
# Of each series without more of its own; as Prometheus labels what it scrapes.
POD = 'namespace="kerf",pod="kerf-0"'
BUILD = f'kerf_build_info{{{POD},role="worker"}}'


@dataclasses.dataclass
class Fires:
    """`series`: name and labels -> values, one a minute, in promtool's notation. At `first_min` it fires, and not before."""
    alert: str
    series: dict
    first_min: int
    labels: dict
    summary: str


@dataclasses.dataclass
class Silent:
    alert: str
    series: dict
    what: str


_OF_POD = {"namespace": "kerf", "pod": "kerf-0"}
REDIS = f'{POD},job="kerf-redis"'
_OF_REDIS = {**_OF_POD, "job": "kerf-redis"}
# All but one, who is each case's own.
_FIVE_NODES = {f'redis_up{{namespace="kerf",pod="kerf-{number}",job="kerf-redis"}}': "1x60" for number in range(1, 6)}
CASES = [
    Fires("KerfNoWorkers", {'kerf_build_info{role="front"}': "1x20", 'kerf_build_info{role="worker"}': "1 1 1 _x20"},
          # Its last value, how long Prometheus looks back for one, and five minutes.
          2 + 6 + 5,
          {"role": "worker"}, "No worker of kerf is there; nobody can back up"),
    Silent("KerfNoWorkers", {BUILD: "1x60"}, "a worker is there"),
    Silent("KerfNoWorkers", {BUILD: "1 1 _x3 1x60"}, "it was away for some minutes"),
    Fires("KerfFrontWithoutWorkers", {f'kerf_front_workers{{{POD},state="live"}}': "3 3 0x20"}, 4, {**_OF_POD, "state": "live"},
          "The front kerf-0 reaches no worker"),
    Silent("KerfFrontWithoutWorkers", {f'kerf_front_workers{{{POD},state="live"}}': "3 0 1x20",
                                       f'kerf_front_workers{{{POD},state="lost"}}': "0x20"}, "one worker is left, and none is lost"),
    Fires("KerfWorkerLost", {f'kerf_front_workers{{{POD},state="lost"}}': "0 2x40"}, 16, {**_OF_POD, "state": "lost"},
          "The front kerf-0 has not reached 2 of its workers for 15 minutes"),
    Silent("KerfWorkerLost", {f'kerf_front_workers{{{POD},state="lost"}}': "0 1x10 0x30"}, "a worker was restarted"),
    Fires("KerfNotReady", {f"kerf_ready{{{POD}}}": "1 0x40", f"kerf_draining{{{POD}}}": "0x40"}, 11, _OF_POD,
          "kerf-0 has not been ready for 10 minutes"),
    Silent("KerfNotReady", {f"kerf_ready{{{POD}}}": "1 0x40", f"kerf_draining{{{POD}}}": "0 1x40"}, "it drains"),
    Fires("KerfIndexFails", {f'kerf_index_operations_total{{{POD},operation="lookup",result="failed"}}': "0 0+3x40"}, 2 + 5,
          {"namespace": "kerf"}, "Lookups or commits fail"),
    Silent("KerfIndexFails", {f'kerf_index_operations_total{{{POD},operation="lookup",result="failed"}}': "7x40",
                              f'kerf_index_operations_total{{{POD},operation="lookup",result="ok"}}': "0+9x40"}, "all goes well now"),
    Fires("KerfRefuses", {f'kerf_streams_refused_total{{{POD},reason="TOO_MANY_STREAMS"}}': "0 0+2x40"}, 2 + 15,
          {"namespace": "kerf", "reason": "TOO_MANY_STREAMS"}, "Uploads are refused (TOO_MANY_STREAMS)"),
    Fires("KerfRefuses", {f'kerf_front_calls_refused_total{{{POD},reason="NO_WORKER"}}': "0 0+2x40"}, 2 + 15,
          {"namespace": "kerf", "reason": "NO_WORKER"}, "Uploads are refused (NO_WORKER)"),
    Silent("KerfRefuses", {f'kerf_streams_refused_total{{{POD},reason="DRAINING"}}': "0 3 6 6x40"}, "some were, while it drained"),
    Fires("KerfDoorRefuses", {f'kerf_door_calls_refused_total{{{POD},reason="no_memory"}}': "0 0+2x40"}, 2 + 10, _OF_POD,
          "kerf-0 refuses calls at its door"),
    Silent("KerfDoorRefuses", {f'kerf_door_calls_refused_total{{{POD},reason="large_metadata"}}': "0+9x40",
                               f'kerf_door_calls_refused_total{{{POD},reason="no_memory"}}': "0 5x40"}, "one client is wrong, and a burst is over"),
    Fires("KerfStrangers", {f'kerf_door_connections_ended_total{{{POD},reason="not_http2"}}': "0 0+600x40"}, 2 + 10,
          {**_OF_POD, "reason": "not_http2"}, "Somebody at kerf-0 does what no agent does (not_http2)"),
    Silent("KerfStrangers", {f'kerf_door_connections_ended_total{{{POD},reason="closed"}}': "0+6000x40",
                             f'kerf_door_connections_ended_total{{{POD},reason="not_http2"}}': "0+6x40"}, "many come and go, and a probe speaks HTTP/1"),
    Fires("KerfIndexTakesNoCommits", {f"kerf_index_takes_commits{{{POD}}}": "1 0x40"}, 6, _OF_POD,
          "The index of kerf-0 takes no commits"),
    Silent("KerfIndexTakesNoCommits", {f"kerf_index_takes_commits{{{POD}}}": "1 0x3 1x40"}, "Redis was away for some minutes"),
    Fires("KerfAuditNotWritten", {f"kerf_audit_writable{{{POD}}}": "1 0x40"}, 3, _OF_POD, "The audit log of kerf-0 cannot be written"),
    Silent("KerfAuditNotWritten", {f"kerf_audit_writable{{{POD}}}": "1 0x1 1x40"}, "its disk was full for a minute"),
    Fires("KerfRedisFull", {f"kerf_redis_full_masters{{{POD}}}": "0 2x40"}, 6, {"namespace": "kerf"}, "2 masters of Redis are full"),
    Silent("KerfRedisFull", {f"kerf_redis_full_masters{{{POD}}}": "0x60"}, "none is"),
    # Time begins at 0 there: 14 days, or two, and ten minutes are left.
    Fires("KerfCertificateEnds", {f"kerf_tls_certificate_expires_seconds{{{POD}}}": "1210200x60"}, 11 + 30, _OF_POD,
          "The certificate of kerf-0 ends in 13d 23h 29m 0s"),
    Silent("KerfCertificateEnds", {f"kerf_tls_certificate_expires_seconds{{{POD}}}": "1210200x20 5000000x40"}, "it was renewed in time"),
    Fires("KerfRedisCertificateEnds", {f"kerf_redis_certificate_expires_seconds{{{POD}}}": "5000000x60",
                                       'kerf_redis_certificate_expires_seconds{namespace="kerf",pod="kerf-1"}': "1210200x60"}, 11 + 30,
          {"namespace": "kerf"}, "The certificate of a node of Redis ends in 13d 23h 29m 0s"),
    Silent("KerfRedisCertificateEnds", {f"kerf_redis_certificate_expires_seconds{{{POD}}}": "1210200x20 5000000x40",
                                        f"kerf_tls_certificate_expires_seconds{{{POD}}}": "1210200x60"}, "it was renewed, and kerfd's own is not its"),
    Fires("KerfCertificateEndsNow", {f"kerf_redis_certificate_expires_seconds{{{POD}}}": "173400x40"}, 11 + 5, _OF_POD,
          "A certificate that kerf-0 shows, or is shown by Redis, ends in 1d 23h 54m 0s"),
    Fires("KerfCertificateEndsNow", {f"kerf_tls_certificate_expires_seconds{{{POD}}}": "173400x40"}, 11 + 5, _OF_POD,
          "A certificate that kerf-0 shows, or is shown by Redis, ends in 1d 23h 54m 0s"),
    Silent("KerfCertificateEndsNow", {f"kerf_tls_certificate_expires_seconds{{{POD}}}": "1210200x60",
                                      f"kerf_redis_certificate_expires_seconds{{{POD}}}": "1210200x60"}, "days are left"),
    Fires("KerfMemoryFull", {f'kerf_memory_bytes{{{POD},budget="input"}}': "10 95x40",
                             f'kerf_memory_limit_bytes{{{POD},budget="input"}}': "100x40"}, 16, {**_OF_POD, "budget": "input"},
          "kerf-0 has used 95% of its memory for uploads (input)"),
    Silent("KerfMemoryFull", {f'kerf_memory_bytes{{{POD},budget="input"}}': "85x40", f'kerf_memory_bytes{{{POD},budget="work"}}': "850x40",
                              f'kerf_memory_limit_bytes{{{POD},budget="input"}}': "100x40",
                              f'kerf_memory_limit_bytes{{{POD},budget="work"}}': "1000x40"}, "each budget has room"),
    Fires("KerfGpuLost", {f'kerf_gpus{{{POD},state="lost"}}': "0 0 1x40"}, 3, {**_OF_POD, "state": "lost"}, "kerf-0 has lost a GPU"),
    Silent("KerfGpuLost", {f'kerf_gpus{{{POD},state="used"}}': "2x40", f'kerf_gpus{{{POD},state="lost"}}': "0x40"}, "all GPUs are used"),
    Fires("KerfGpuWrong", {f"kerf_gpu_mismatches_total{{{POD}}}": "0 0 1x40"}, 2, _OF_POD, "A GPU of kerf-0 has computed something wrong"),
    Silent("KerfGpuWrong", {f"kerf_gpu_mismatches_total{{{POD}}}": "0x40", f"kerf_gpu_audits_total{{{POD}}}": "0+4x40"}, "audits find nothing"),
    Fires("KerfHintsRefused", {f'kerf_hint_segments_total{{{POD},event="refused"}}': "0 0+1x80"}, 2 + 30, {"namespace": "kerf"},
          "Workers refuse what others have left in Redis as hints"),
    Silent("KerfHintsRefused", {f'kerf_hint_segments_total{{{POD},event="refused"}}': "0 4x80",
                                f'kerf_hint_segments_total{{{POD},event="fetched"}}': "0+9x80"}, "a few were, with a new key"),
    Fires("KerfFilesRunOut", {f"process_open_fds{{{POD}}}": "10 95x40", f"process_max_fds{{{POD}}}": "100x40", BUILD: "1x40"}, 6, _OF_POD,
          "kerf-0 has nearly all the file descriptors open that it may"),
    Silent("KerfFilesRunOut", {'process_open_fds{namespace="other",pod="db-0"}': "95x40",
                               'process_max_fds{namespace="other",pod="db-0"}': "100x40", BUILD: "1x40"}, "it is somebody else"),
    Fires("KerfRestarts", {f"process_start_time_seconds{{{POD}}}": "100 200 300 400 500x40", BUILD: "1x40"}, 4, _OF_POD,
          "kerf-0 was started more than three times in half an hour"),
    Silent("KerfRestarts", {f"process_start_time_seconds{{{POD}}}": "100 200x10 300x40", BUILD: "1x60"}, "two rolling updates"),
    Fires("KerfRedisDown", {f"redis_up{{{REDIS}}}": "1 0x20"}, 6, _OF_REDIS, "Redis has not answered in kerf-0 for 5 minutes"),
    Fires("KerfRedisDown", {f"redis_up{{{REDIS}}}": "1 _x20", f"up{{{REDIS}}}": "1 0x20"}, 6, _OF_REDIS,
          "Redis has not answered in kerf-0 for 5 minutes"),
    Silent("KerfRedisDown", {f"redis_up{{{REDIS}}}": "1 0x4 1x40", f'redis_up{{{POD},job="other"}}': "0x40"},
           "it was restarted, and another one is none of kerf's"),
    Fires("KerfRedisMemoryFull", {f"redis_memory_used_bytes{{{REDIS}}}": "10 92x40", f"redis_memory_max_bytes{{{REDIS}}}": "100x40"}, 16,
          _OF_REDIS, "kerf-0 has used 92% of its memory, and little of that is hints"),
    Fires("KerfRedisMemoryFull", {f"redis_memory_used_bytes{{{REDIS}}}": "10 1e9x40", f"redis_memory_max_bytes{{{REDIS}}}": "1e9x40",
                                  f'redis_db_keys_expiring{{{REDIS},db="db0"}}': "1e5x40"}, 16,
          _OF_REDIS, "kerf-0 has used 100% of its memory, and little of that is hints"),
    Silent("KerfRedisMemoryFull", {f"redis_memory_used_bytes{{{REDIS}}}": "1e9x40", f"redis_memory_max_bytes{{{REDIS}}}": "1e9x40",
                                   f'redis_db_keys_expiring{{{REDIS},db="db0"}}': "2e5x40"}, "hints have what entries leave"),
    Silent("KerfRedisMemoryFull", {f"redis_memory_used_bytes{{{REDIS}}}": "88x40", f"redis_memory_max_bytes{{{REDIS}}}": "100x40"},
           "there is room"),
    Fires("KerfRedisReplicaCutOff", {f'redis_master_link_up{{{REDIS},master_host="10.0.0.1",master_port="6379"}}': "1 0x20"}, 6,
          {**_OF_REDIS, "master_host": "10.0.0.1", "master_port": "6379"},
          "The replica kerf-0 has not reached its master for 5 minutes"),
    Silent("KerfRedisReplicaCutOff", {f'redis_master_link_up{{{REDIS},master_host="10.0.0.1",master_port="6379"}}': "1 0x3 1x40"},
           "it was restarted"),
    # As KerfNoWorkers.
    Fires("KerfRedisMissing", {**_FIVE_NODES, f"redis_up{{{REDIS}}}": "1 1 1 _x20"}, 2 + 6 + 5, {"namespace": "kerf"},
          "Not all six nodes of Redis have been there for 5 minutes"),
    Fires("KerfRedisMissing", {f"redis_up{{{REDIS}}}": "_x20"}, 5, {"job": "kerf-redis"},
          "Not all six nodes of Redis have been there for 5 minutes"),
    Silent("KerfRedisMissing", {**_FIVE_NODES, f"redis_up{{{REDIS}}}": "1 0x5 _x5 1x50"}, "it was restarted elsewhere"),
]


def series_of(case):
    return [{"series": name, "values": values} for name, values in case.series.items()]


def promtool_test(case, rules):
    """One unit test in promtool's words."""
    def expect(minute, alerts):
        return {"eval_time": f"{minute}m", "alertname": case.alert, "exp_alerts": alerts}

    expected = []
    if isinstance(case, Fires):
        rule = rules[case.alert]
        expected += [expect(minute, []) for minute in range(case.first_min)]
        expected.append(expect(case.first_min, [{
            "exp_labels": {**rule["labels"], **case.labels},
            "exp_annotations": {**rule["annotations"], "summary": case.summary}}]))
    else:
        expected += [expect(minute, []) for minute in range(SILENT_MIN)]
    return {"interval": "1m", "input_series": series_of(case), "alert_rule_test": expected}


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)


def findings(groups, folder, cases):
    rules = {rule["alert"]: rule for group in groups for rule in group["rules"]}
    for kind in (Fires, Silent):
        for name in sorted(set(rules) - {case.alert for case in cases if isinstance(case, kind)}):
            yield f"{name}: nothing here says when it {'fires' if kind is Fires else 'is silent'}"
    # JSON is YAML.
    (folder / "rules.yaml").write_text(json.dumps({"groups": groups}))
    done = run("promtool", "check", "rules", str(folder / "rules.yaml"))
    if done.returncode != 0:
        yield done.stdout + done.stderr
        return
    for case in cases:
        (folder / "test.yaml").write_text(json.dumps({
            "rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": [promtool_test(case, rules)]}))
        done = run("promtool", "test", "rules", str(folder / "test.yaml"))
        if done.returncode != 0:
            what = "does not fire as it should" if isinstance(case, Fires) else f"is not silent: {case.what}"
            yield f"{case.alert} {what}\n{done.stdout}{done.stderr}"


def broken_rules(case, rule):
    """Changes to a rule that its case must find."""
    if isinstance(case, Silent):
        yield {"expr": f"({rule['expr']}) or vector(1)"}
        return
    yield {"expr": "vector(1) < 0"}
    yield {"for": f"{int(rule.get('for', '0m')[:-1]) + 1}m"}


def rule_of(groups, case):
    return next(rule for group in groups for rule in group["rules"] if rule["alert"] == case.alert)


def check_that_it_can_fail(groups, folder):
    for case in CASES:
        for change in broken_rules(case, rule_of(groups, case)):
            broken = copy.deepcopy(groups)
            rule_of(broken, case).update(change)
            if not any(finding.startswith(f"{case.alert} ") for finding in findings(broken, folder, [case])):
                yield f"{case.alert} with {change}: not found"


def main():
    groups = [group for file in sorted(COMPONENTS.glob("*/alerts.yaml"))
              for group in yaml.safe_load(file.read_text(encoding="utf-8"))["spec"]["groups"]]
    with tempfile.TemporaryDirectory(prefix="kerf-alerts-") as name:
        found = list(findings(groups, pathlib.Path(name), CASES))
        found += check_that_it_can_fail(groups, pathlib.Path(name)) if not found else []
    for finding in found:
        print(f"alerts_test: {finding}", file=sys.stderr)
    count = sum(len(group["rules"]) for group in groups)
    print(f"alerts_test: {count} alerts, {len(CASES)} cases, {len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
