"""The settings of a load test: what they are, their defaults, and where they come from.

A scenario (scenarios/*.toml) sets some; `--set section.key=value` sets one more. run.py hands the
effective settings to every process of Locust in the environment.
"""

import dataclasses
import json
import os
import tomllib

ENVIRONMENT_KEY = "KERF_LOAD_SETTINGS"


@dataclasses.dataclass
class Target:
    # kerfd, or several that share an index: HOST:PORT or unix:PATH. None: run.py starts one.
    addresses: list = dataclasses.field(default_factory=list)
    profile: str = "mincdc-8k"
    # blake3, sha256 or xxh3-128.
    digest: str = "blake3"
    # The metadata key that each agent's own shard key travels under; empty: none is sent.
    shard_key_metadata: str = ""
    # Names the repository, load-RUN, and signs its locators. Empty: a new one.
    run: str = ""


@dataclasses.dataclass
class Cluster:
    """What run.py starts by tools/cluster where it is given no address; 0 workers: one kerfd alone."""
    workers: int = 0
    fronts: int = 2
    # When all workers, and then all fronts, are restarted one after another; 0: never.
    roll_at_s: float = 0.0


@dataclasses.dataclass
class Users:
    """How many of each there are, relative to each other; 0: none."""
    first_backup: int = 2
    daily_incremental: int = 4
    many_small_files: int = 2
    huge_file: int = 1
    restore_check: int = 1


@dataclasses.dataclass
class Corpus:
    seed: int = 1
    # The share of a new file's bytes that comes from what all users have in common.
    dedup_share: float = 0.4
    # How much that is.
    common_bytes: int = 64 * 1024 * 1024
    # The length of one stretch of common or own bytes: much shorter than some chunks and nothing is shared.
    stretch_bytes: int = 256 * 1024
    # Real trees for first and incremental backups, instead of bytes made from the seed.
    trees: list = dataclasses.field(default_factory=list)
    # Of one backup.
    files: int = 20
    # The median; sizes spread around it as those of real files do.
    file_bytes: int = 256 * 1024
    max_file_bytes: int = 16 * 1024 * 1024
    small_files: int = 200
    small_file_bytes: int = 2000
    huge_file_bytes: int = 256 * 1024 * 1024
    # append, insert, overwrite, move, or mixed: any of them.
    edit_pattern: str = "mixed"
    # The share of the files that a day changes, and how often each.
    edit_share: float = 0.3
    edits_a_file: int = 3
    edit_bytes: int = 2000


@dataclasses.dataclass
class Load:
    # steady, step, spike or soak.
    shape: str = "steady"
    users: int = 8
    spawn_rate: float = 4.0
    time_s: float = 60.0
    # Processes of Locust; 1: all in one.
    processes: int = 1
    # Ends the run early once it exists; empty: none does.
    end_file: str = ""
    # Between two tasks of a user.
    wait_s: float = 0.2


@dataclasses.dataclass
class Stream:
    slice_bytes: int = 256 * 1024
    # An agent commits when so many chunks are stored, and when all that it sent is answered.
    commit_chunks: int = 512
    # The share of the backups that lose their stream in mid-file, on purpose.
    break_share: float = 0.05
    # So many streams in a row may be lost without any progress.
    attempts: int = 8
    # A stream that neither takes nor answers anything for so long has failed.
    stall_s: float = 60.0


@dataclasses.dataclass
class Settings:
    target: Target = dataclasses.field(default_factory=Target)
    cluster: Cluster = dataclasses.field(default_factory=Cluster)
    users: Users = dataclasses.field(default_factory=Users)
    corpus: Corpus = dataclasses.field(default_factory=Corpus)
    load: Load = dataclasses.field(default_factory=Load)
    stream: Stream = dataclasses.field(default_factory=Stream)

    def set(self, section, key, value):
        """Raises ValueError where there is no such setting, or it is of another type."""
        part = getattr(self, section, None) if section in self.__dataclass_fields__ else None
        if part is None:
            raise ValueError(f"no section '{section}': want one of {', '.join(self.__dataclass_fields__)}")
        if key not in part.__dataclass_fields__:
            raise ValueError(f"no setting '{section}.{key}': want one of {', '.join(part.__dataclass_fields__)}")
        wanted = type(getattr(part, key))
        if wanted is float and type(value) is int:
            value = float(value)
        if type(value) is not wanted:
            raise ValueError(f"{section}.{key} = {value!r}: want {wanted.__name__}")
        setattr(part, key, value)

    def set_all(self, sections):
        for section, pairs in sections.items():
            if not isinstance(pairs, dict):
                raise ValueError(f"'{section}' stands outside a section")
            for key, value in pairs.items():
                self.set(section, key, value)

    def set_text(self, text):
        """`text` is SECTION.KEY=VALUE; what is no TOML value is a string."""
        name, _, value = text.partition("=")
        section, _, key = name.strip().partition(".")
        try:
            value = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            pass
        self.set(section, key, value)

    def to_environment(self):
        return {ENVIRONMENT_KEY: json.dumps(dataclasses.asdict(self))}


def from_environment():
    settings = Settings()
    settings.set_all(json.loads(os.environ[ENVIRONMENT_KEY]))
    return settings
