"""Manifests that are broken on purpose: each must be refused, in words that say what is wrong."""

import copy
import re
import sys

import manifests

MUTATIONS = []


def breaks(overlay, expected):
    """The function breaks the overlay; a finding must match `expected`."""
    def add(function):
        MUTATIONS.append((function.__name__.replace("_", " "), overlay, expected, function))
        return function
    return add


def _pod(things, kind, name):
    return things.get(kind, name)["spec"]["template"]["spec"]


def _worker(things):
    return _pod(things, "StatefulSet", "kerf-worker")


def _kerfd(things):
    return _worker(things)["containers"][0]


def _front(things):
    return _pod(things, "Deployment", "kerf-front")


def _redis(things):
    return _pod(things, "StatefulSet", "kerf-redis")


def _policy(things, name):
    return things.get("NetworkPolicy", name)["spec"]


def _settings(things, name):
    return next(thing["data"] for thing in things.of("ConfigMap") if thing["metadata"]["name"].startswith(name))


def _replace(data, key, old, new):
    assert old in data[key], f"{old} is not in {key}"
    data[key] = data[key].replace(old, new)


def _drop(things, kind, name):
    things.things.remove(things.get(kind, name))


# Schemas.

@breaks("dev", r"Deployment kerf-front: spec\.replica: there is no such field \(Kubernetes v1\.34")
def an_unknown_field(things):
    things.get("Deployment", "kerf-front")["spec"]["replica"] = 3


@breaks("dev", r"Deployment kerf-front: spec\.replicas: 'two' is no integer \(Kubernetes v1\.35")
def a_wrong_type(things):
    things.get("Deployment", "kerf-front")["spec"]["replicas"] = "two"


@breaks("dev", r"has no PodDisruptionBudget in policy/v1beta1")
def an_object_of_the_past(things):
    things.get("PodDisruptionBudget", "kerf-front")["apiVersion"] = "policy/v1beta1"


@breaks("dev", r"limits\.memory: '1 GB' is no quantity")
def no_quantity(things):
    _kerfd(things)["resources"]["limits"]["memory"] = "1 GB"


@breaks("dev", r"containers\[0\]: needs name")
def a_missing_field(things):
    del _front(things)["containers"][0]["ports"][0]["containerPort"]
    del _front(things)["containers"][0]["name"]


@breaks("dev", r"spec\.replicas: True is no integer")
def a_truth_for_a_number(things):
    things.get("Deployment", "kerf-front")["spec"]["replicas"] = True


# References.

@breaks("dev", r"is there twice")
def an_object_twice(things):
    things.things.append(copy.deepcopy(things.get("Service", "kerf")))


@breaks("dev", r"the namespaces \['default', 'kerf'\]")
def another_namespace(things):
    things.get("Service", "kerf")["metadata"]["namespace"] = "default"


@breaks("dev", r"ConfigMap settings: its name has no hash")
def a_settings_file_without_a_hash(things):
    thing = next(thing for thing in things.of("ConfigMap") if thing["metadata"]["name"].startswith("kerf-front"))
    thing["metadata"]["name"] = _front(things)["volumes"][0]["configMap"]["name"] = "settings"


@breaks("dev", r"there is no ConfigMap kerf-other")
def no_such_config_map(things):
    _front(things)["volumes"][0]["configMap"]["name"] = "kerf-other"


@breaks("prod", r"there is no Secret kerf-passwords")
def no_such_secret(things):
    _worker(things)["volumes"][1]["secret"]["secretName"] = "kerf-passwords"


@breaks("prod", r"Secret kerf-hints has no key hint")
def no_such_key(things):
    _worker(things)["volumes"][2]["secret"]["items"][0]["key"] = "hint"


@breaks("dev", r"mounts the volume data, which the pod does not have")
def no_such_volume(things):
    _kerfd(things)["volumeMounts"].append({"name": "data", "mountPath": "/data"})


@breaks("dev", r"there is no ServiceAccount kerfd")
def no_such_account(things):
    _worker(things)["serviceAccountName"] = "kerfd"


@breaks("dev", r"StatefulSet kerf-worker: its selector takes the pods of .*Deployment kerf-front")
def a_selector_of_all(things):
    del things.get("StatefulSet", "kerf-worker")["spec"]["selector"]["matchLabels"]["app.kubernetes.io/component"]


@breaks("dev", r"Service kerf: selects the pods of \[\]")
def a_service_of_nobody(things):
    things.get("Service", "kerf")["spec"]["selector"]["app.kubernetes.io/component"] = "fronts"


@breaks("dev", r"Service kerf-worker: StatefulSet kerf-worker has no port http")
def a_service_of_no_port(things):
    things.get("Service", "kerf-worker")["spec"]["ports"][0]["targetPort"] = "http"


@breaks("dev", r"there is no headless Service kerf-worker")
def no_service_of_its_own(things):
    del things.get("Service", "kerf-worker")["spec"]["clusterIP"]


@breaks("dev", r"livenessProbe asks at port 9999")
def a_probe_of_no_port(things):
    _kerfd(things)["livenessProbe"] = {"tcpSocket": {"port": 9999}}


@breaks("dev", r"topologySpreadConstraints looks at other pods")
def a_spread_of_others(things):
    _worker(things)["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"]["app.kubernetes.io/component"] = "front"


@breaks("dev", r"StatefulSet kerf-redis: has no PodDisruptionBudget")
def no_budget(things):
    _drop(things, "PodDisruptionBudget", "kerf-redis")


@breaks("dev", r"PodDisruptionBudget kerf-redis: maxUnavailable is not 1")
def a_budget_for_two(things):
    things.get("PodDisruptionBudget", "kerf-redis")["spec"]["maxUnavailable"] = 2


# The network.

@breaks("dev", r"no NetworkPolicy that denies everything")
def no_default(things):
    _drop(things, "NetworkPolicy", "default-deny")


@breaks("dev", r"front to redis: no NetworkPolicy covers redis: default-deny must")
def a_pod_without_a_policy(things):
    _drop(things, "NetworkPolicy", "default-deny")
    _drop(things, "NetworkPolicy", "kerf-redis")


@breaks("dev", r"worker cannot reach redis at \('TCP', 6379\)")
def redis_lets_nobody_in(things):
    _policy(things, "kerf-redis")["ingress"].pop(0)


@breaks("dev", r"redis cannot reach redis at \('TCP', 16379\)")
def no_bus(things):
    for rule in _policy(things, "kerf-redis")["ingress"] + _policy(things, "kerf-redis")["egress"]:
        rule["ports"] = [port for port in rule["ports"] if port["port"] != "bus"]


@breaks("dev", r"front cannot reach the name server")
def no_names(things):
    _drop(things, "NetworkPolicy", "names")


@breaks("dev", r"a stranger may reach front")
def everybody_is_an_agent(things):
    del _policy(things, "kerf-front")["ingress"][0]["from"]


@breaks("dev", r"a stranger called worker may reach redis")
def a_label_of_any_namespace(things):
    _policy(things, "kerf-redis")["ingress"][0]["from"][0]["namespaceSelector"] = {}


@breaks("dev", r"front may reach redis")
def the_front_reaches_redis(things):
    _policy(things, "kerf-redis")["ingress"][0]["from"][0]["podSelector"]["matchLabels"].pop("app.kubernetes.io/component")
    _policy(things, "kerf-front")["egress"].append({})


@breaks("dev", r"understands matchLabels alone")
def a_policy_of_expressions(things):
    _policy(things, "kerf-redis")["ingress"][0]["from"][0]["podSelector"] = {
        "matchExpressions": [{"key": "app.kubernetes.io/component", "operator": "NotIn", "values": ["front"]}]}


# Security.

@breaks("dev", r"Namespace kerf: pod-security\.kubernetes\.io/enforce is not restricted")
def a_lax_namespace(things):
    things.get("Namespace", "kerf")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] = "baseline"


@breaks("dev", r"hostNetwork is not allowed")
def the_network_of_the_host(things):
    _worker(things)["hostNetwork"] = True


@breaks("dev", r"must have runAsNonRoot, and 65532")
def root(things):
    _redis(things)["securityContext"]["runAsUser"] = 0


@breaks("dev", r"enableServiceLinks is not false")
def variables_of_services(things):
    del _front(things)["enableServiceLinks"]


@breaks("dev", r"readOnlyRootFilesystem is not true")
def a_root_to_write_to(things):
    _redis(things)["containers"][1]["securityContext"] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


@breaks("dev", r"capabilities are not dropped")
def a_capability(things):
    _kerfd(things)["securityContext"]["capabilities"]["add"] = ["SYS_NICE"]


@breaks("dev", r"of a kind that restricted forbids: \['hostPath'\]")
def a_folder_of_the_host(things):
    volume = _front(things)["volumes"][0]
    volume.clear()
    volume.update({"name": "settings", "hostPath": {"path": "/etc"}})


@breaks("dev", r"has not defaultMode 0440")
def a_secret_for_all(things):
    del _worker(things)["volumes"][1]["secret"]["defaultMode"]


@breaks("dev", r"REDISCLI_AUTH has a secret in the environment")
def a_secret_in_the_environment(things):
    _redis(things)["containers"][1]["env"] = [*_redis(things)["containers"][1]["env"], {
        "name": "REDISCLI_AUTH", "valueFrom": {"secretKeyRef": {
            "name": _redis(things)["volumes"][1]["secret"]["secretName"], "key": "keeper"}}}]


# Programs.

@breaks("dev", r"builds no image nginx")
def an_image_of_others(things):
    _kerfd(things)["image"] = "docker.io/library/nginx:1"


@breaks("dev", r"the image kerf has the tag latest")
def another_tag(things):
    _kerfd(things)["image"] = "localhost/kerf:latest"


@breaks("dev", r"the image kerf has no /usr/bin/kerf-server")
def no_such_program(things):
    _kerfd(things)["command"] = ["/usr/bin/kerf-server"]


@breaks("dev", r"container kerfd: .*--drain-seconds")
def no_such_flag(things):
    _kerfd(things)["args"].append("--drain-seconds=3")


@breaks("dev", r"container kerfd: .*max-uploads")
def no_such_setting(things):
    _settings(things, "kerf-worker")["kerfd.toml"] += "max-uploads = 4\n"


@breaks("dev", r"KERFD_THREADS is no setting")
def no_such_variable(things):
    _kerfd(things)["env"][0]["name"] = "KERFD_THREADS"


@breaks("dev", r"KERFD_WORKER_THREADS is limits\.cpu, which is not set")
def no_limit_of_processors(things):
    del _kerfd(things)["resources"]["limits"]["cpu"]


@breaks("dev", r"nothing is mounted as /etc/kerf/kerfd\.toml")
def settings_at_another_place(things):
    _kerfd(things)["volumeMounts"][0]["mountPath"] = "/etc/kerfd/kerfd.toml"


@breaks("dev", r"listens at '0\.0\.0\.0:7000' for grpc, and its port grpc is 7461")
def another_port(things):
    _replace(_settings(things, "kerf-worker"), "kerfd.toml", "7461", "7000")


@breaks("dev", r"kerfd listens at 127\.0\.0\.1:7461, where nobody else reaches it")
def loopback(things):
    _replace(_settings(things, "kerf-front"), "kerfd.toml", "0.0.0.0", "127.0.0.1")


@breaks("dev", r"hint-key-file is /etc/kerf/hint\.key, and no Secret is mounted there")
def a_key_at_another_place(things):
    _replace(_settings(things, "kerf-worker"), "kerfd.toml", "/etc/kerf/hints/hint.key", "/etc/kerf/hint.key")


@breaks("dev", r"workers are at dns:kerf-workers:7461")
def workers_of_another_name(things):
    _replace(_settings(things, "kerf-front"), "kerfd.toml", "dns:kerf-worker:", "dns:kerf-workers:")


@breaks("dev", r"Redis is at kerf-redis:6380, which no Service has")
def redis_at_another_port(things):
    _replace(_settings(things, "kerf-worker"), "kerfd.toml", "6379", "6380")


@breaks("dev", r"its memory limit is 2560 MiB, and its settings .* may take")
def more_memory_than_there_is(things):
    _replace(_settings(things, "kerf-worker"), "kerfd.toml", 'memory = "1G"', 'memory = "4G"')


@breaks("dev", r"terminationGracePeriodSeconds is 30, and preStop, --drain-ms .* are 50: change them with deploy/drain")
def less_grace_than_drain(things):
    _worker(things)["terminationGracePeriodSeconds"] = 30


@breaks("dev", r"preStop sleeps for 2 s: less than fronts need")
def too_short_a_sleep(things):
    _kerfd(things)["lifecycle"]["preStop"]["sleep"]["seconds"] = 2
    _worker(things)["terminationGracePeriodSeconds"] = 42


@breaks("gpu", r"kerf-cuda, --gpu=require and nvidia\.com/gpu belong together")
def no_gpu_for_a_pod_that_needs_one(things):
    del _kerfd(things)["resources"]["limits"]["nvidia.com/gpu"]


@breaks("dev", r"keeper\.sh has no 'check', only start, keep, ready, leave")
def no_such_verb(things):
    _redis(things)["containers"][0]["readinessProbe"]["exec"]["command"][2] = "check"


@breaks("dev", r"keeper\.sh needs KERF_REDIS_ADDRESS")
def a_node_without_an_address(things):
    _redis(things)["containers"][1]["env"] = _redis(things)["containers"][1]["env"][1:]


@breaks("dev", r"the file peers is not the names of its 7 pods")
def a_seventh_node(things):
    things.get("StatefulSet", "kerf-redis")["spec"]["replicas"] = 7


@breaks("dev", r"not 1\.5 times redis\.conf's maxmemory")
def redis_with_more_memory_than_there_is(things):
    _replace(_settings(things, "kerf-redis"), "redis.conf", "maxmemory 1gb", "maxmemory 2gb")


@breaks("dev", r"redis-user is '', which is no user for kerfd")
def a_kerfd_without_a_name(things):
    _replace(_settings(things, "kerf-worker"), "kerfd.toml", 'redis-user = "kerfd"', "")


@breaks("dev", r"redis-user is 'operator', which is no user for kerfd")
def a_kerfd_that_may_do_everything(things):
    _replace(_settings(things, "kerf-worker"), "kerfd.toml", 'redis-user = "kerfd"', 'redis-user = "operator"')


@breaks("dev", r"has the passwords of kerfd, operator mounted, and needs that of kerfd")
def a_password_too_many(things):
    _worker(things)["volumes"][1]["secret"]["items"].append({"key": "operator", "path": "operator"})


@breaks("dev", r"the user probe has no password: no Secret is mounted as /etc/kerf/redis/probe\.sums")
def a_user_without_a_password(things):
    _settings(things, "kerf-redis")["users"] += "probe +info\n"


@breaks("dev", r"container keeper: has the password of kerfd mounted, and needs its sums alone")
def a_password_where_a_sum_will_do(things):
    _redis(things)["volumes"][1]["secret"]["items"].append({"key": "kerfd", "path": "kerfd"})


@breaks("dev", r"Secret kerf-redis-\w+: kerfd\.sums has not the sum of kerfd")
def a_sum_of_another_password(things):
    data = next(thing["data"] for thing in things.of("Secret") if "kerfd" in thing["data"])
    data["kerfd"] = data["keeper"]


@breaks("dev", r"the user kerfd may do everything: only operator may")
def a_user_with_all_rights(things):
    _replace(_settings(things, "kerf-redis"), "users", "+hmget", "+@all")


@breaks("dev", r"there is no user keeper in the file users")
def no_keeper(things):
    _replace(_settings(things, "kerf-redis"), "users", "keeper +psync", "warden +psync")


# The load test.

def _load(things, name="kerf-load-master"):
    return _pod(things, "Job" if name == "kerf-load-master" else "Deployment", name)["containers"][0]


def _swap(words, old, new):
    words[words.index(old)] = new


@breaks("loadtest", r"container locust: .*no setting 'load\.people'")
def no_such_setting_of_the_load(things):
    _replace(_settings(things, "kerf-load"), "scenario.toml", "users =", "people =")


@breaks("loadtest", r"container locust: .*unknown: p95_s")
def no_such_service_level(things):
    _replace(_settings(things, "kerf-load"), "slo.toml", "[p95_ms.any]", "[p95_s.any]")


@breaks("loadtest", r"Job kerf-load-master, container locust: .*--masters=3")
def no_such_option_of_the_load(things):
    _swap(_load(things)["args"], "--master=3", "--masters=3")


@breaks("loadtest", r"nothing is mounted as /etc/kerf/levels\.toml")
def service_levels_at_another_place(things):
    _swap(_load(things)["args"], "--slo=/etc/kerf/slo.toml", "--slo=/etc/kerf/levels.toml")


@breaks("loadtest", r"the addresses are \['kerf\.kerf:7462'\], and the fronts are at kerf\.kerf:7461")
def a_load_on_nobody(things):
    _replace(_settings(things, "kerf-load"), "scenario.toml", "kerf.kerf:7461", "kerf.kerf:7462")


@breaks("loadtest", r"waits for 3 workers, and Deployment kerf-load-worker has 2")
def a_master_that_waits_for_ever(things):
    things.get("Deployment", "kerf-load-worker")["spec"]["replicas"] = 2


@breaks("loadtest", r"the master is at kerf-load:5557, which no Service has")
def a_master_of_another_name(things):
    _swap(_load(things, "kerf-load-worker")["args"], "--worker=kerf-load-master:5557", "--worker=kerf-load:5557")


@breaks("loadtest", r"Locust's master listens at 5557, and its port locust is 5558")
def a_master_at_another_port(things):
    _load(things)["ports"][0]["containerPort"] = 5558


@breaks("loadtest", r"without --reports-to-log nobody could fetch")
def reports_that_nobody_sees(things):
    _load(things)["args"].remove("--reports-to-log")


@breaks("loadtest", r"would run again after a verdict")
def a_second_verdict(things):
    del things.get("Job", "kerf-load-master")["spec"]["backoffLimit"]


@breaks("loadtest", r"activeDeadlineSeconds is 60, and the load takes 300 s")
def a_job_that_is_ended_too_soon(things):
    things.get("Job", "kerf-load-master")["spec"]["activeDeadlineSeconds"] = 60


@breaks("loadtest", r"the image kerf-loadtest has no /usr/bin/python")
def another_python(things):
    _load(things)["command"][0] = "/usr/bin/python"


@breaks("loadtest", r"fronts let nobody in without kerf-agent on the pod")
def a_namespace_of_no_agents(things):
    del things.get("Namespace", "kerf-load")["metadata"]["labels"]["kerf-agents"]


@breaks("loadtest", r"load-worker cannot reach a front in kerf's namespace")
def a_load_that_is_shut_in(things):
    _drop(things, "NetworkPolicy", "fronts")


@breaks("loadtest", r"load-worker may reach a worker in kerf's namespace")
def a_load_that_reaches_all_of_kerf(things):
    del _policy(things, "fronts")["egress"][0]["to"][0]["podSelector"]


@breaks("loadtest", r"a stranger in kerf's namespace may reach load-master")
def a_master_for_everybody(things):
    del _policy(things, "kerf-load-master")["ingress"][0]["from"]


@breaks("loadtest", r"readOnlyRootFilesystem is not true")
def a_load_that_writes_to_its_root(things):
    _load(things, "kerf-load-worker")["securityContext"]["readOnlyRootFilesystem"] = False


# Metrics.

def _alert(things, name):
    rules = things.get("PrometheusRule", "kerf")["spec"]["groups"][0]["rules"]
    return next(rule for rule in rules if rule["alert"] == name)


@breaks("prod", r"PrometheusRule kerf, KerfWorkerLost: kerfd shows no metric kerf_workers")
def an_alert_on_no_metric(things):
    _alert(things, "KerfWorkerLost")["expr"] = 'kerf_workers{state="lost"} > 0'


@breaks("prod", r"kerf_gpus has no label condition")
def an_alert_on_no_label(things):
    _alert(things, "KerfGpuLost")["expr"] = 'kerf_gpus{condition="lost"} > 0'


@breaks("prod", r"kerfd shows no metric kerf_stage_seconds \(docs")
def the_value_of_a_histogram(things):
    _alert(things, "KerfMemoryFull")["expr"] = "kerf_stage_seconds > 1"


@breaks("prod", r"KerfMemoryFull: Prometheus cannot read 'sum\(kerf_streams > 1'")
def an_expression_that_does_not_end(things):
    _alert(things, "KerfMemoryFull")["expr"] = "sum(kerf_streams > 1"


@breaks("prod", r"ConfigMap kerf-dashboard, panel 'Bytes taken': kerfd shows no metric kerf_taken_bytes_total")
def a_panel_of_no_metric(things):
    _replace(_settings(things, "kerf-dashboard"), "kerf.json", "kerf_ingest_bytes_total", "kerf_taken_bytes_total")


@breaks("prod", r"PrometheusRule kerf: spec\.groups\[0\]\.rules\[0\]\.severity: there is no such field")
def an_alert_with_an_unknown_field(things):
    _alert(things, "KerfNoWorkers")["severity"] = "high"


@breaks("prod", r"adapter-rules\.yaml brings no kerf_streams to Kubernetes")
def an_autoscaler_that_nobody_serves(things):
    spec = things.get("HorizontalPodAutoscaler", "kerf-worker")["spec"]
    spec["metrics"][0]["pods"]["metric"]["name"] = "kerf_streams"


@breaks("prod", r"has replicas, so that each apply undoes")
def replicas_beside_an_autoscaler(things):
    things.get("StatefulSet", "kerf-worker")["spec"]["replicas"] = 3


@breaks("prod", r"there is no Deployment kerf-worker in apps/v1")
def an_autoscaler_of_nothing(things):
    things.get("HorizontalPodAutoscaler", "kerf-worker")["spec"]["scaleTargetRef"]["kind"] = "Deployment"


@breaks("prod", r"ServiceMonitor kerf-front: Service kerf has no port http")
def a_monitor_of_no_port(things):
    things.get("ServiceMonitor", "kerf-front")["spec"]["endpoints"][0]["port"] = "http"


def _exporter(things):
    return next(container for container in _redis(things)["containers"] if container["name"] == "exporter")


@breaks("prod", r"container exporter: exporter\.sh needs KERF_REDIS_EXPORTER")
def an_exporter_without_a_password(things):
    _exporter(things)["env"].pop()


@breaks("prod", r"container exporter: exporter\.sh listens at 0\.0\.0\.0:9121, and its port metrics is 9122")
def an_exporter_at_another_port(things):
    _exporter(things)["ports"][0]["containerPort"] = 9122


@breaks("prod", r"container exporter: nothing is mounted as /etc/kerf/exporter/exporter\.sh")
def an_exporter_without_its_script(things):
    _exporter(things)["volumeMounts"][0]["mountPath"] = "/etc/exporter"


@breaks("prod", r"kerfd shows no metric redis_memory_bytes")
def a_metric_that_redis_does_not_have(things):
    rules = things.get("PrometheusRule", "kerf-redis")["spec"]["groups"][0]["rules"]
    rules[1]["expr"] = rules[1]["expr"].replace("redis_memory_used_bytes", "redis_memory_bytes")


@breaks("prod", r"Prometheus cannot reach redis at \('TCP', 9121\)")
def prometheus_shut_out_of_redis(things):
    _drop(things, "NetworkPolicy", "kerf-redis-metrics")


@breaks("prod", r"Prometheus cannot reach worker at \('TCP', 9461\)")
def prometheus_shut_out(things):
    _drop(things, "NetworkPolicy", "kerf-worker-metrics")


@breaks("prod", r"another pod of monitoring may reach")
def all_of_monitoring_let_in(things):
    del _policy(things, "kerf-front-metrics")["ingress"][0]["from"][0]["podSelector"]


def run(rendered, findings):
    """The exit code: 0 if all were found."""
    failed = 0
    for name, overlay, expected, function in MUTATIONS:
        things = manifests.parse(rendered[overlay])
        function(things)
        found = findings(manifests.Manifests(things.things))
        if not any(re.search(expected, message) for message in found):
            failed += 1
            print(f"deploy/check: broken on purpose, and not found: {name} (overlays/{overlay}): nothing says "
                  f"'{expected}', but: {found or 'nothing'}", file=sys.stderr)
    print(f"deploy/check: {len(MUTATIONS) - failed} of {len(MUTATIONS)} overlays that were broken on purpose were refused")
    return 1 if failed else 0
