"""Renders every overlay, validates it against each release of Kubernetes, and applies the rules that no schema has.

usage: check.py KUSTOMIZE KERFD KINDS.yaml SCHEMA.json...
"""

import dataclasses
import pathlib
import re
import subprocess
import sys

import backups
import certificates
import custom_kinds
import load
import manifests
import metrics
import monitoring_schema
import mutations
import network
import programs
import references
import schema
import security

DEPLOY = pathlib.Path(__file__).resolve().parent.parent
RULES = [*references.RULES, *network.RULES, *security.RULES, *programs.RULES, *load.RULES, *backups.RULES,
         *metrics.RULES, *certificates.RULES]


@dataclasses.dataclass
class Facts:
    kerfd: str
    version: str
    # Name -> paths.
    images: dict
    # Name -> (type, labels).
    metrics: dict
    # Of the Prometheus adapter.
    adapter_rules: str
    # The words that start loadtest/run.py.
    load_program: tuple
    # Flags of each verb of kerf, "" for those before it; and the variables that it reads.
    kerf_flags: dict
    kerf_variables: set


def facts_of(kerfd):
    def ask(flag):
        return subprocess.run([kerfd, flag], capture_output=True, text=True, check=True, timeout=60).stdout

    version, root = ask("--version").split()[1], DEPLOY.parent
    images = {path.name: set(re.findall(r"^(/\S+) ", path.read_text(encoding="utf-8"), re.M))
              for path in (DEPLOY / "image/contents").iterdir()}
    return Facts(kerfd, version, images, metrics.read_reference(ask("--print-metrics")),
                 (DEPLOY / "components/autoscaling/adapter-rules.yaml").read_text(encoding="utf-8"),
                 (str(root / "out/tools/loadtest/bin/python"), str(root / "loadtest/run.py")),
                 *backups.read_references(root / "docs/reference"))


def render(kustomize, overlay):
    done = subprocess.run([kustomize, "build", overlay], capture_output=True, text=True, check=False, timeout=60)
    if done.returncode != 0:
        sys.exit(f"deploy/check: {overlay.relative_to(DEPLOY.parent)} does not render: {done.stderr.strip()}")
    if done.stderr:
        sys.exit(f"deploy/check: {overlay.relative_to(DEPLOY.parent)}: {done.stderr.strip()}")
    return done.stdout


def findings(things, facts, schemas):
    malformed = [message for one in schemas for message in one.findings(things)]
    yield from malformed
    # The rules rely on what schemas ask for.
    for rule in RULES if not malformed else ():
        yield from rule(things, facts)


def operators_secrets():
    readme = (DEPLOY / "README.md").read_text(encoding="utf-8")
    for name, keys in references.OPERATORS_SECRETS.items():
        for key in keys:
            if not re.search(rf"create secret generic {name}\b.*{re.escape(key)}=", readme):
                yield f"deploy/README.md does not say how to make the Secret {name} with {key}"


def main():
    kustomize, kerfd, kinds, *paths = sys.argv[1:]
    facts = facts_of(kerfd)
    more = {**monitoring_schema.DEFINITIONS, **custom_kinds.definitions(kinds)}
    schemas = [schema.Schema(path, more) for path in paths]
    found = list(operators_secrets())
    overlays = sorted(path.parent for path in (DEPLOY / "overlays").glob("*/kustomization.yaml"))
    rendered = {overlay.name: render(kustomize, overlay) for overlay in overlays}
    for name, text in rendered.items():
        things = manifests.parse(text)
        bad = list(findings(things, facts, schemas))
        found += [f"overlays/{name}: {message}" for message in bad]
        print(f"deploy/check: overlays/{name}: {len(things.things)} objects, {len(bad)} findings; "
              f"Kubernetes {', '.join(one.release for one in schemas)}")
    for message in found:
        print(f"deploy/check: {message}", file=sys.stderr)
    if found:
        return 1
    return mutations.run(rendered, lambda things: list(findings(things, facts, schemas)))


if __name__ == "__main__":
    sys.exit(main())
