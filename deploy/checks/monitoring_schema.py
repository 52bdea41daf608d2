"""What components/monitoring uses of the Prometheus operator's objects (monitoring.coreos.com/v1), written as Kubernetes
describes its own. The operator's definitions are larger; a field that is missing here is refused until it is added.
"""


def _kind(name):
    return [{"group": "monitoring.coreos.com", "version": "v1", "kind": name}]


def _object(required=(), **fields):
    return {"type": "object", "required": list(required), "properties": fields}


def _list(items):
    return {"type": "array", "items": items}


_STRING = {"type": "string"}
_STRINGS = {"type": "object", "additionalProperties": _STRING}
_META = {"$ref": "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}
_SELECTOR = {"$ref": "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector"}

_KEY = _object(("name", "key"), name=_STRING, key=_STRING)
_TLS = _object(("ca", "serverName"), ca=_object(("secret",), secret=_KEY), serverName=_STRING,
               cert=_object(("secret",), secret=_KEY), keySecret=_KEY)

DEFINITIONS = {
    "monitoring.ServiceMonitor": {
        **_object(("metadata", "spec"), apiVersion=_STRING, kind=_STRING, metadata=_META, spec=_object(
            ("selector", "endpoints"), selector=_SELECTOR,
            endpoints=_list(_object(("port",), port=_STRING, path=_STRING, interval=_STRING, scrapeTimeout=_STRING, scheme=_STRING,
                                    tlsConfig=_TLS)))),
        "x-kubernetes-group-version-kind": _kind("ServiceMonitor")},
    "monitoring.PrometheusRule": {
        **_object(("metadata", "spec"), apiVersion=_STRING, kind=_STRING, metadata=_META, spec=_object(
            ("groups",), groups=_list(_object(("name", "rules"), name=_STRING, interval=_STRING, rules=_list(_object(
                ("expr",), alert=_STRING, record=_STRING, expr=_STRING, labels=_STRINGS, annotations=_STRINGS,
                **{"for": _STRING})))))),
        "x-kubernetes-group-version-kind": _kind("PrometheusRule")},
}
