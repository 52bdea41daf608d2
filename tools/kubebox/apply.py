"""Applies manifests so that nothing is let pass: fields are checked strictly, a warning is an error."""

import json

from policies import unsupported
from processes import Failed


def apply(plane, source, is_dry_run=False):
    """What is in `source`, a kustomization's folder or a file; the count of its objects."""
    if source.is_dir():
        text = plane.kubectl("kustomize", str(source)).stdout
    else:
        text = source.read_text(encoding="utf-8")
    objects = parse(plane, text, source)
    for one in objects:
        if one["kind"] == "NetworkPolicy" and (reasons := list(unsupported(one))):
            raise Failed(f"{source}: the NetworkPolicy {one['metadata']['name']} would not be carried out here: "
                         f"{'; '.join(reasons)}")
    # A dry run makes nothing, also not the namespaces that all else is checked against, nor kinds.
    first = [one for one in objects if one["kind"] in ("Namespace", "CustomResourceDefinition")]
    if first:
        strictly(plane, first, source)
        for one in first:
            if one["kind"] == "CustomResourceDefinition":
                plane.kubectl("wait", "--for=condition=Established", "--timeout=30s",
                              f"crd/{one['metadata']['name']}")
    strictly(plane, objects, source, "--dry-run=server")
    if not is_dry_run:
        strictly(plane, objects, source)
    return len(objects)


def parse(plane, text, source):
    """The objects as JSON, as the client reads them: no server is asked, nothing is left out."""
    done = plane.kubectl("create", "--dry-run=client", "--validate=false", "--output=json",
                         "--filename=-", stdin=text, check=False)
    if done.returncode != 0:
        raise Failed(f"{source}: {done.stderr.strip()}")
    return split_json(done.stdout)


def split_json(text):
    """kubectl writes one object after another, or a list of them."""
    decoder, objects, position = json.JSONDecoder(), [], 0
    while position < len(text.rstrip()):
        one, position = decoder.raw_decode(text, position)
        objects += one["items"] if one["kind"] == "List" else [one]
        while position < len(text) and text[position].isspace():
            position += 1
    return objects


def strictly(plane, objects, source, *options):
    # Not as a List, or kubectl would look at the fields itself, and the server not at all.
    document = "\n---\n".join(json.dumps(one) for one in objects)
    done = plane.kubectl("apply", "--validate=strict", "--filename=-", *options, stdin=document,
                         check=False)
    # kubectl itself fails after warnings only when asked; then it says no more than their count.
    warnings = [line for line in done.stderr.splitlines() if line.startswith("Warning:")]
    if done.returncode != 0 or warnings:
        raise Failed(f"{source}: refused{' (dry run)' if options else ''}\n{done.stderr.strip()}")
