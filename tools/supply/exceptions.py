"""Findings that somebody has looked at and that do not hurt kerf: exceptions.toml. None lasts for ever, and none outlives its
finding."""

import dataclasses
import datetime
import pathlib
import re
import sys
import tomllib

import known_faults

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FILE = HERE / "exceptions.toml"
# Whoever reviews promises to look again.
LONGEST_DAYS = 366
_KEYS = {"package", "ids", "why", "held_by", "reviewed", "by", "until"}


@dataclasses.dataclass(frozen=True)
class Reviewed:
    package: str
    identifier: str
    why: str
    until: datetime.date


def _dates(entry):
    return all(type(entry[key]) is datetime.date for key in ("reviewed", "until"))


def ran_out(entry, today):
    return _dates(entry) and entry["until"] < today


def read(path=FILE, today=None, root=ROOT, let_run_out=False):
    """(what is reviewed, what is wrong with the file). With let_run_out what has run out holds all the same, but for whoever reads
    the warnings: the tests of a commit do not fail for the day on which they run."""
    today = today or datetime.datetime.now(datetime.timezone.utc).date()
    reviewed, wrong = {}, []
    try:
        entries = tomllib.loads(pathlib.Path(path).read_text(encoding="utf-8")).get("exception", [])
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise known_faults.Failed(f"{path}: {error}") from error
    for number, entry in enumerate(entries, 1):
        where = f"exception {number} ({entry.get('package', 'of no package')})"
        if set(entry) != _KEYS:
            wrong.append(f"{where}: has {', '.join(sorted(entry))}, and must have {', '.join(sorted(_KEYS))}")
            continue
        if not _dates(entry) or not all(str(entry[key]).strip() for key in ("why", "by", "package")) or not entry["ids"]:
            wrong.append(f"{where}: why, by and ids must say something; reviewed and until are dates")
            continue
        if ran_out(entry, today):
            said = f"{where}: ran out on {entry['until']}: look at it again"
            if not let_run_out:
                wrong.append(said)
                continue
            print(f"tools/cve_check: warning: {said}", file=sys.stderr)
        if entry["reviewed"] > today or (entry["until"] - entry["reviewed"]).days > LONGEST_DAYS:
            wrong.append(f"{where}: reviewed {entry['reviewed']}, until {entry['until']}: at most {LONGEST_DAYS} days, and not from tomorrow on")
            continue
        wrong += [f"{where}: there is no {name}" for name in entry["held_by"] if not (root / name).is_file()]
        for identifier in entry["ids"]:
            if not re.fullmatch(r"[A-Z]+-[0-9]{4}-[0-9]+", identifier):
                wrong.append(f"{where}: {identifier} is no id")
            elif (entry["package"], identifier) in reviewed:
                wrong.append(f"{where}: {identifier} is there twice")
            reviewed[entry["package"], identifier] = Reviewed(entry["package"], identifier, entry["why"], entry["until"])
    return reviewed, wrong
