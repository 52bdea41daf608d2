"""What rots in a store between two runs, or goes."""

import os
import pathlib

SECTOR_BYTES = 512
# Of parity, which gives back two of each group at least (docs/spec/store.md).
PARITY_SECTOR_BYTES, MENDED_SECTORS = 4096, 2
# Parts of a store, and how often one of them is hit.
PARTS = {"pack": 12, "snapshot": 4, "config": 1, "copies/config": 1, "epoch": 1, "copies/epoch": 1, "note": 1, "forgotten": 1,
         "both configurations": 1, "both epochs": 1, "parity": 2}
FOLDERS = {"pack": "packs", "snapshot": "snapshots", "note": "manifest", "forgotten": "forgotten", "parity": "parity"}
SUFFIXES = (".pack", ".snap", ".note", ".parity")
BOTH = {"both configurations": ("config", "copies/config"), "both epochs": ("epoch", "copies/epoch")}


class Damage:
    """Of one or more files of a store; can be undone. `path` is relative to the store."""

    def __init__(self, random, store):
        self._before, self._after = {}, {}
        self.part = random.choices(list(PARTS), list(PARTS.values()))[0]
        self._store = pathlib.Path(store)
        # What went is of another kind of trouble than what rotted.
        self.is_gone = random.random() < (0.6 if self.part == "snapshot" else 0.2)
        self.done = []
        if self.part in FOLDERS:
            found = sorted(path for path in (self._store / FOLDERS[self.part]).rglob("*") if path.suffix in SUFFIXES)
            paths = random.sample(found, min(len(found), random.choice((1, 1, 2))))
            if self.part == "snapshot" and random.random() < 0.5:
                # Nobody who writes has come since, who would note what its backup did not.
                paths = [max(found, key=lambda path: path.stat().st_ctime_ns)] if found else []
        else:
            paths = [self._store / name for name in BOTH.get(self.part, (self.part,))]
        for path in paths:
            if path.exists():
                self._hurt(random, path)

    def __str__(self):
        return f"damage: {', '.join(self.done)}"

    @property
    def names(self):
        """The ids of packs or snapshots that are hurt."""
        return {path.stem for path in self._before}

    def is_mended_by_parity(self):
        """Each pack has some, and more than it has lost."""
        return self.part == "pack" and not self.is_gone and all(
            self._parity_of(path).exists() and lost_sectors(before, path.read_bytes()) <= MENDED_SECTORS
            for path, (before, _) in self._before.items())

    def _parity_of(self, pack):
        return self._store / "parity" / pack.parent.name / f"{pack.stem}.parity"

    def still_there(self):
        """Those of its files that are not as they were."""
        return [path.name for path, (before, _) in self._before.items() if path.exists() and path.read_bytes() != before]

    def _hurt(self, random, path):
        before = path.read_bytes()
        after = b"" if self.is_gone else rotten(random, before)
        if after == before and not self.is_gone:
            return
        found = path.stat()
        self._before[path] = (before, found.st_mode)
        self._after[path] = after
        if self.is_gone:
            path.unlink()
        else:
            path.write_bytes(after)
        self.done.append(f"{path.relative_to(self._store)} {'is gone' if self.is_gone else tell(before, after)}")

    def undo(self):
        for path, (before, mode) in self._before.items():
            # A collection has written it anew, further on: the older one would set the store back.
            if path.name == "epoch" and path.exists() and path.read_bytes() != self._after[path]:
                continue
            path.write_bytes(before)
            os.chmod(path, mode)


def rotten(random, before):
    """The same bytes, but for a bit, a sector of zeros, or an end."""
    kind = random.random()
    if not before:
        return before
    if kind < 0.7:
        at, after = random.randrange(len(before)), bytearray(before)
        after[at] ^= 1 << random.randrange(8)
        return bytes(after)
    at = random.randrange(0, len(before), SECTOR_BYTES)
    if kind < 0.9:
        end = min(len(before), at + SECTOR_BYTES)
        return before[:at] + bytes(end - at) + before[end:]
    return before[:at]


def lost_sectors(before, after):
    """Of a file that nothing was added to."""
    starts = range(0, len(before), PARITY_SECTOR_BYTES)
    return sum(before[start:start + PARITY_SECTOR_BYTES] != after[start:start + PARITY_SECTOR_BYTES] for start in starts)


def tell(before, after):
    if len(before) != len(after):
        return f"is cut from {len(before)} to {len(after)} bytes"
    wrong = [at for at, (one, other) in enumerate(zip(before, after)) if one != other]
    return f"has {len(wrong)} wrong bytes from {wrong[0]} of {len(before)} on"
