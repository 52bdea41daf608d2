"""A document of SPDX 2.3 in JSON: the same bytes for the same parts, in whatever order they were found."""

import datetime
import hashlib
import json
import os
import re
import subprocess
import urllib.parse
import uuid

NOTHING = "NOASSERTION"
DOCUMENT = "SPDXRef-DOCUMENT"
# Of the names of documents; nobody answers there, and nobody has to.
_NAMESPACE = "https://spdx.org/spdxdocs/"
GIT_S = 60


def created(root):
    """When the source was as it is: $SOURCE_DATE_EPOCH, else the commit's date, else the beginning of time; never now, which
    would be another document each time."""
    seconds = os.environ.get("SOURCE_DATE_EPOCH")
    if seconds is None:
        try:
            done = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=root, capture_output=True, text=True, check=False, timeout=GIT_S)
            seconds = done.stdout.strip()
        except FileNotFoundError:
            seconds = ""
    return datetime.datetime.fromtimestamp(int(seconds or 0), datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def identifier(kind, *words):
    """SPDX allows letters, digits, dots and dashes; all else is written as a number, so that no two become one."""
    name = "-".join(words)
    return f"SPDXRef-{kind}-" + re.sub(r"[^A-Za-z0-9.-]", lambda match: f"-{ord(match[0]):x}-", name)


def package_url(kind, *path, version, **qualifiers):
    quoted = "/".join(urllib.parse.quote(part, safe="") for part in path)
    rest = "&".join(f"{key}={urllib.parse.quote(value, safe='')}" for key, value in sorted(qualifiers.items()))
    return f"pkg:{kind}/{quoted}@{urllib.parse.quote(version, safe='')}" + (f"?{rest}" if rest else "")


def digests(data):
    """SPDX wants SHA-1 of each file; SHA-256 is what counts."""
    return [{"algorithm": "SHA1", "checksumValue": hashlib.sha1(data, usedforsecurity=False).hexdigest()},
            {"algorithm": "SHA256", "checksumValue": hashlib.sha256(data).hexdigest()}]


class Document:
    def __init__(self, name, date):
        self.name, self.date = name, date
        self.packages, self.files, self.relationships, self.texts = {}, {}, set(), {}

    def package(self, reference, name, version, **fields):
        """Adds a package, or nothing if it is there."""
        entry = {"SPDXID": reference, "name": name, "versionInfo": version, "downloadLocation": NOTHING, "filesAnalyzed": False,
                 "licenseConcluded": NOTHING, "licenseDeclared": NOTHING, "copyrightText": NOTHING, "supplier": NOTHING}
        entry.update({key: value for key, value in fields.items() if value is not None})
        self.packages.setdefault(reference, entry)
        return reference

    def relate(self, one, kind, other, comment=""):
        self.relationships.add((one, kind, other, comment))

    def licence_text(self, name, where):
        self.texts[name] = where

    def file(self, path, data, owner, comment=""):
        """A file of a package: `path` as SPDX writes it, from ./ on."""
        reference = identifier("File", path)
        self.files[reference] = {"SPDXID": reference, "fileName": path, "checksums": digests(data), "licenseConcluded": NOTHING,
                                 "copyrightText": NOTHING, **({"comment": comment} if comment else {})}
        self.relate(owner, "CONTAINS", reference)

    def merge(self, other):
        """All of another document but what it describes."""
        for entry in other["packages"]:
            self.packages.setdefault(entry["SPDXID"], dict(entry))
        for text in other.get("hasExtractedLicensingInfos", []):
            self.texts[text["licenseId"]] = text["extractedText"]
        for relation in other["relationships"]:
            if relation["spdxElementId"] != DOCUMENT:
                self.relate(relation["spdxElementId"], relation["relationshipType"], relation["relatedSpdxElement"],
                            relation.get("comment", ""))

    def _verify(self):
        """The code over all files of a package, which SPDX wants where it has any."""
        sums = {}
        for one, kind, other, _ in self.relationships:
            if kind == "CONTAINS" and other in self.files:
                sums.setdefault(one, []).append(self.files[other]["checksums"][0]["checksumValue"])
        for reference, values in sums.items():
            code = hashlib.sha1("".join(sorted(values)).encode(), usedforsecurity=False).hexdigest()
            self.packages[reference].update(filesAnalyzed=True, packageVerificationCode={"packageVerificationCodeValue": code})

    def render(self):
        self._verify()
        body = {
            "packages": [self.packages[key] for key in sorted(self.packages)],
            "files": [self.files[key] for key in sorted(self.files)],
            "hasExtractedLicensingInfos": [{"licenseId": key, "name": key, "extractedText": self.texts[key]} for key in sorted(self.texts)],
            "relationships": [{"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other,
                               **({"comment": comment} if comment else {})}
                              for one, kind, other, comment in sorted(self.relationships)],
        }
        body = {key: value for key, value in body.items() if value}
        text = json.dumps([self.name, self.date, body], sort_keys=True)
        head = {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": DOCUMENT, "name": self.name,
                "documentNamespace": f"{_NAMESPACE}{self.name}-{uuid.uuid5(uuid.NAMESPACE_URL, text)}",
                "creationInfo": {"created": self.date, "creators": ["Tool: kerf-tools-sbom"]}}
        return json.dumps({**head, **body}, indent=1, ensure_ascii=True) + "\n"
