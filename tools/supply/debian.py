"""Debian packages: whose a file is, what a package says of itself, and which of two versions is the later one.

All of it is asked of dpkg, which knows, but for the names of licences.
"""

import dataclasses
import functools
import os
import re
import subprocess

STATUS_S = 60
# Names of Debian's copyright files that SPDX has another name for; those that are the same in both are not here.
_LICENCES = {
    "apache-2": "Apache-2.0", "apache-2.0": "Apache-2.0", "artistic": "Artistic-1.0-Perl", "bsd-2-clause": "BSD-2-Clause",
    "bsd-3-clause": "BSD-3-Clause", "bsd-4-clause": "BSD-4-Clause", "bsl-1.0": "BSL-1.0", "boost-1.0": "BSL-1.0",
    "cc0-1.0": "CC0-1.0", "expat": "MIT", "gpl-1+": "GPL-1.0-or-later", "gpl-2": "GPL-2.0-only", "gpl-2.0": "GPL-2.0-only",
    "gpl-2+": "GPL-2.0-or-later", "gpl-2.0+": "GPL-2.0-or-later", "gpl-3": "GPL-3.0-only", "gpl-3+": "GPL-3.0-or-later",
    "gpl-3.0+": "GPL-3.0-or-later", "isc": "ISC", "lgpl-2": "LGPL-2.0-only", "lgpl-2+": "LGPL-2.0-or-later",
    "lgpl-2.1": "LGPL-2.1-only", "lgpl-2.1+": "LGPL-2.1-or-later", "lgpl-3": "LGPL-3.0-only", "lgpl-3+": "LGPL-3.0-or-later",
    "zlib": "Zlib",
}
_USING = re.compile(r"([^\s(,]+) \(= ([^)]+)\)")


class Failed(Exception):
    """What a person is told."""


@dataclasses.dataclass(frozen=True)
class Package:
    name: str
    version: str
    architecture: str
    source: str
    source_version: str
    # (source package, version) of what Debian has linked into it.
    built_using: tuple


def parse_status(text):
    """The packages of dpkg's status, or of `dpkg-query -s`."""
    found = []
    for stanza in re.split(r"\n\s*\n", text.strip()):
        fields = dict(re.findall(r"^([A-Za-z-]+): (.*(?:\n[ \t].*)*)", stanza, re.M))
        if "Package" not in fields:
            continue
        version = fields["Version"]
        # "grpc (1.51.1-3)"; the version is left out where it is the package's own.
        source = re.fullmatch(r"(\S+)(?: \((\S+)\))?", fields.get("Source", fields["Package"]))
        using = _USING.findall(fields.get("Built-Using", "") + ", " + fields.get("Static-Built-Using", ""))
        found.append(Package(fields["Package"], version, fields["Architecture"], source[1], source[2] or version,
                             tuple(sorted(set(using)))))
    return found


def packages(names):
    """What is installed, sorted."""
    if not names:
        return []
    done = subprocess.run(["dpkg-query", "-s", *sorted(names)], capture_output=True, text=True, check=False, timeout=STATUS_S)
    if done.returncode != 0:
        raise Failed(done.stderr.strip())
    return sorted(parse_status(done.stdout), key=lambda package: package.name)


def owners(paths):
    """Real path -> package, of those that are from one. Packages name some files without the /usr that they are found under."""
    real = {path: os.path.realpath(path) for path in paths}
    asked = set(real.values()) | {path.removeprefix("/usr") for path in real.values()}
    if not asked:
        return {}
    done = subprocess.run(["dpkg-query", "-S", *sorted(asked)], capture_output=True, text=True, check=False, timeout=STATUS_S)
    named = {}
    for line in done.stdout.splitlines():
        who, _, path = line.partition(": ")
        if not who.startswith("diversion by "):
            named[path] = who.split(", ")[0].split(":")[0]
    found = {}
    for path, place in real.items():
        owner = named.get(place) or named.get(place.removeprefix("/usr"))
        if owner:
            found[path] = owner
    return found


def licence(copyright_text):
    """An SPDX expression of all licences that a copyright file names, and the names that SPDX has not. (None, ()) where the file
    is written for people alone."""
    if not re.match(r"Format(-Specification)?:", copyright_text):
        return None, ()
    names = set()
    for line in re.findall(r"^License:[ \t]*(\S.*)$", copyright_text, re.M):
        names.update(name for name in re.split(r"\s+(?:and|or)\s+|\s*,\s*", line.strip()) if name)
    known, unknown = set(), set()
    for name in names:
        identifier = _LICENCES.get(name.lower())
        if identifier:
            known.add(identifier)
        else:
            unknown.add(re.sub(r"[^A-Za-z0-9.-]+", "-", name).strip("-") or "unnamed")
    parts = sorted(known) + [f"LicenseRef-Debian-{name}" for name in sorted(unknown)]
    return " AND ".join(parts) or None, tuple(sorted(unknown))


@functools.lru_cache(maxsize=None)
def is_older(version, other):
    """By the word of dpkg: epochs, tildes and all."""
    done = subprocess.run(["dpkg", "--compare-versions", version, "lt", other], capture_output=True, text=True, check=False,
                          timeout=STATUS_S)
    if done.returncode not in (0, 1) or done.stderr:
        raise Failed(f"dpkg cannot compare '{version}' with '{other}': {done.stderr.strip()}")
    return done.returncode == 0
