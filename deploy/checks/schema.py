"""Strict validation against Kubernetes' own description of its objects (OpenAPI), without an API server.

What a release does not know is an error here, as with `kubectl apply --validate=strict`.
"""

import json
import pathlib
import re

from manifests import QUANTITY, name_of

_REF = "#/definitions/"
_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_TYPES = {"string": str, "boolean": bool, "integer": int, "number": (int, float), "object": dict, "array": list}
# Of names in its registry; the rest is for the API server to say.
_DNS_NAME = re.compile(r"^[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?$")


class Schema:
    def __init__(self, path, more=None):
        with open(path, encoding="utf-8") as source:
            document = json.load(source)
        self.release = pathlib.Path(path).stem.removeprefix("kubernetes-")
        self.definitions = {**document["definitions"], **(more or {})}
        self.kinds = {}
        for name, definition in self.definitions.items():
            for kind in definition.get("x-kubernetes-group-version-kind", []):
                group = f"{kind['group']}/" if kind["group"] else ""
                self.kinds[f"{group}{kind['version']}", kind["kind"]] = name

    def findings(self, manifests):
        for thing in manifests.things:
            where = name_of(thing)
            if not _DNS_NAME.match(thing["metadata"]["name"]):
                yield f"{where}: this is no name for an object"
            name = self.kinds.get((thing.get("apiVersion"), thing["kind"]))
            if name is None:
                yield f"{where}: Kubernetes {self.release} has no {thing['kind']} in {thing.get('apiVersion')}"
                continue
            for message in self._check(thing, {"$ref": _REF + name}, ""):
                yield f"{where}: {message} (Kubernetes {self.release})"

    def _check(self, value, schema, path):
        if "$ref" in schema:
            name = schema["$ref"].removeprefix(_REF)
            if name == _INT_OR_STRING:
                if not isinstance(value, (int, str)) or isinstance(value, bool):
                    yield f"{path}: {value!r} is neither a number nor a string"
                return
            if name == _QUANTITY:
                if not QUANTITY.match(str(value)):
                    yield f"{path}: {value!r} is no quantity"
                return
            schema = self.definitions[name]
        kind = schema.get("type")
        if value is None:
            yield f"{path}: has no value"
            return
        if kind and (not isinstance(value, _TYPES[kind]) or (isinstance(value, bool) and kind != "boolean")):
            yield f"{path}: {value!r} is no {kind}"
            return
        if "enum" in schema and value not in schema["enum"]:
            yield f"{path}: {value!r} is none of {', '.join(map(str, schema['enum']))}"
        if isinstance(value, list):
            for index, item in enumerate(value):
                yield from self._check(item, schema.get("items", {}), f"{path}[{index}]")
        if isinstance(value, dict):
            yield from self._check_fields(value, schema, path)

    def _check_fields(self, value, schema, path):
        fields = schema.get("properties", {})
        rest = schema.get("additionalProperties")
        for key in schema.get("required", []):
            if key not in value:
                yield f"{path}: needs {key}"
        for key, item in value.items():
            at = f"{path}.{key}" if path else key
            if key in fields:
                yield from self._check(item, fields[key], at)
            elif isinstance(rest, dict):
                yield from self._check(item, rest, at)
            elif fields:
                yield f"{at}: there is no such field"
