"""The committed snapshot of known faults, known_faults.json: for each source package what is wrong before which version.

    {"release": "bookworm",
     "asked": {"deb": {"grpc": ["changelog", "tracker"], ...}, ...},       who was asked of each package; without it nobody was
     "sources": {"tracker": {"date": "2026-11-26", "what": "..."}, ...},
     "faults": {"deb": {"grpc": {"CVE-2023-4785": {"fixed": null, "of": "tracker"}}}}}

`fixed` is the first version without the fault, or null where there is none. A wheel has `spans` instead: [introduced, fixed]. Of an
ecosystem in `not_asked` nobody could be asked, and why; that is a warning each time.
"""

import dataclasses
import datetime
import json
import pathlib

import debian

HERE = pathlib.Path(__file__).resolve().parent
SNAPSHOT = HERE / "known_faults.json"
# Debian's security team mends within days, and its point releases are two months apart.
OLD_DAYS = 45
OK = object()


class Failed(Exception):
    """What a person is told."""


@dataclasses.dataclass(frozen=True, order=True)
class Component:
    # "deb" (a source package) or "pypi".
    ecosystem: str
    name: str
    version: str


@dataclasses.dataclass(frozen=True, order=True)
class Finding:
    component: Component
    identifier: str
    fixed: str | None


class Snapshot:
    def __init__(self, data):
        self.data = data

    @classmethod
    def read(cls, path=SNAPSHOT):
        try:
            return cls(json.loads(pathlib.Path(path).read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            raise Failed(f"{path} is no snapshot: {error}") from error

    def write(self, path=SNAPSHOT):
        pathlib.Path(path).write_text(json.dumps(self.data, indent=1, sort_keys=True) + "\n", encoding="utf-8")

    def age_days(self, today):
        """Of the source that was asked longest ago."""
        return max((today - datetime.date.fromisoformat(source["date"])).days for source in self.data["sources"].values())

    def is_known(self, component):
        return component.name in self.data["asked"].get(component.ecosystem, {}) or component.ecosystem in self.not_asked

    @property
    def not_asked(self):
        return self.data.get("not_asked", {})

    def findings(self, component):
        for identifier, fault in sorted(self.data["faults"].get(component.ecosystem, {}).get(component.name, {}).items()):
            if (fixed := _fixed(component, fault)) is not OK:
                yield Finding(component, identifier, fixed)


def _fixed(component, fault):
    """The version that mends it, or None; OK where it is not in this one."""
    if component.ecosystem == "deb":
        return fault["fixed"] if fault["fixed"] is None or debian.is_older(component.version, fault["fixed"]) else OK
    # Of out/tools/supply: the order of versions of wheels is that of the packaging project.
    from packaging.version import Version
    version = Version(component.version)
    for introduced, fixed in fault["spans"]:
        if Version(introduced) <= version and (fixed is None or version < Version(fixed)):
            return fixed
    return OK
