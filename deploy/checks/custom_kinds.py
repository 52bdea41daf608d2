"""Kinds that others define for Kubernetes (CustomResourceDefinition), as definitions beside its own."""

import yaml


def definitions(path):
    """What a file of CustomResourceDefinitions says of each version that is served, for schema.Schema."""
    with open(path, encoding="utf-8") as source:
        return {f"{one['metadata']['name']}.{version['name']}": _definition(one["spec"], version)
                for one in yaml.safe_load_all(source) if one for version in one["spec"]["versions"] if version["served"]}


def _definition(spec, version):
    schema = version["schema"]["openAPIV3Schema"]
    # There it says no more of it than that it is an object.
    fields = {**schema["properties"], "metadata": {"$ref": "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}}
    return {**schema, "properties": fields,
            "x-kubernetes-group-version-kind": [{"group": spec["group"], "version": version["name"], "kind": spec["names"]["kind"]}]}
