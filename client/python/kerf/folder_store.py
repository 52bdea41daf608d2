"""A store in a folder, one file for each chunk: small and whole; a file is synced for each new
chunk, which on a disk is slow.

    chunks/abc/DIGEST.NONCE   never changed; deleted by collections
    chunks/abc/.DIGEST.NONCE  a sync has failed that should have made that name durable: it is read, and counts for no more
    epoch, plan, config       replaced as a whole; the epoch with its SHA-256
    pending/NAME              published, and not yet looked at again
    snapshots/NAME            the same file, by a link
    tmp/                      of agents that run; to be emptied when none does

All agents see it as it is: a local file system, or one that is mounted without caches (COL-42).
"""

from __future__ import annotations

import concurrent.futures
import fcntl
import hashlib
import json
import os
import pathlib
import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from kerf import digests
from kerf.errors import Retryable, StoreError
from kerf.recipe import Recipe, decode, digests_of
from kerf.store import FIRST_EPOCH, Stored

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")
_EPOCH = re.compile(rb"[0-9]{1,18}")
_NONCE_BYTES = 8
_SYNCS_AT_ONCE = 16
_FOLDERS = ("chunks", "pending", "snapshots", "tmp")


class FolderStore:
    """Of one process; others may have the same folder open. A kerf.CollectedStore."""

    def __init__(self, path: str | os.PathLike[str], digest: str = "blake3") -> None:
        self.path = pathlib.Path(path)
        self.digest_name = digest
        self._algorithm = digests.algorithm(digest)
        # Put and not yet synced: where it lies, and where it will.
        self._written: list[tuple[pathlib.Path, pathlib.Path]] = []
        # Folders with names that were found, and may be another writer's.
        self._found_in: set[pathlib.Path] = set()
        # Or one is under way.
        self._has_sync_failed = False
        self._make()

    def _make(self) -> None:
        if not (self.path / "config").exists():
            for name in _FOLDERS:
                _make_folder(self.path / name)
            self._begin()
        for name in _FOLDERS:
            # One that is gone is not made anew: without its snapshots all chunks would be garbage.
            if not (self.path / name).is_dir():
                raise StoreError(f"{self.path} has no folder {name}: it is damaged. If it was empty, and a copy of the store has "
                                 "left it out, make it")
        body = (self.path / "config").read_bytes()
        try:
            is_ours = json.loads(body) == {"version": 1, "digest": self.digest_name}
        except ValueError:
            is_ours = False
        if not is_ours:
            raise StoreError(f"{self.path} is a store of {body!r}, not of version 1 and {self.digest_name}")

    def _begin(self) -> None:
        """Others may do so at the same time, and one of them be at work already: so nothing is replaced, an epoch least of
        all (COL-1). The config comes last: where it is, all else is durable."""
        if any(any((self.path / name).iterdir()) for name in _FOLDERS[:3]) and not (self.path / "config").exists():
            raise StoreError(f"{self.path} has chunks or snapshots, and no config: it is damaged, or no store")
        self._create("epoch", _epoch_line(FIRST_EPOCH))
        _sync(self.path.parent)
        self._create("config", json.dumps({"version": 1, "digest": self.digest_name}).encode())

    # Chunks.

    def _check(self) -> None:
        """Behind a sync that failed a later one may go well, and say nothing of the bytes that the first one has lost: so
        they never get their names, and the store is of no more use, whichever client has it (CLI-20)."""
        if self._has_sync_failed:
            raise StoreError(f"{self.path} could not sync; open it anew")

    def put(self, digest: bytes, data: bytes) -> bytes:
        self._check()
        locator = digest + secrets.token_bytes(_NONCE_BYTES)
        written = self.path / "tmp" / secrets.token_hex(16)
        _write(written, data)
        self._written.append((written, self._chunk(locator)))
        return locator

    def has(self, digest: bytes) -> list[bytes]:
        return self.has_of_length(digest, None)

    def has_of_length(self, digest: bytes, length: int | None) -> list[bytes]:
        """A file of another length has rotted (CLI-36). Of None, one that is empty: no chunk is."""
        self._check()
        folder, names = self._names_of(digest)
        named = [name for name in names if not names[name] and _is_whole(folder / name, length)]
        if named:
            self._found_in.add(folder)
        return [digest + bytes.fromhex(name.partition(".")[2]) for name in named]

    def _names_of(self, digest: bytes) -> tuple[pathlib.Path, dict[str, bool]]:
        """The folder, and whether each name there may not be durable, whatever a later sync says."""
        folder = self._chunk(digest + b"\0").parent
        try:
            there = set(os.listdir(folder))
        except FileNotFoundError:
            there = set()
        return folder, {name: "." + name in there for name in there if name.startswith(digest.hex() + ".")}

    def sync(self) -> None:
        self._check()
        self._has_sync_failed = True
        named: list[pathlib.Path] = []
        try:
            _sync_all(written for written, _ in self._written)
            made = {place.parent for _, place in self._written if not place.parent.is_dir()}
            for folder in made:
                folder.mkdir(mode=0o700, exist_ok=True)
            while self._written:
                written, place = self._written[-1]
                os.rename(written, place)
                self._written.pop()
                named.append(place)
                self._found_in.add(place.parent)
            _sync_all([*self._found_in, self.path / "chunks"])
        except BaseException:
            for written, _ in self._written:
                # Of a disk that is full they would be what it is full of.
                with suppress(OSError):
                    written.unlink()
            self._doubt(named)
            raise
        self._found_in.clear()
        self._has_sync_failed = False

    def _doubt(self, places: list[pathlib.Path]) -> None:
        """The names are there, and a later sync may go well and say nothing of them: so whoever looks takes none for stored
        (CLI-20). They are not removed, for another client may have found them, and be sure of them by a sync of its own."""
        failures: list[OSError] = []
        for place in places:
            try:
                (place.parent / f".{place.name}").touch(0o600)
            except OSError as failure:
                # A disk that is full may still take others.
                failures.append(failure)
        if failures:
            raise failures[0]

    def chunks(self) -> Iterator[Stored]:
        for folder in sorted((self.path / "chunks").iterdir()):
            for entry in os.scandir(folder):
                if entry.name.startswith("."):
                    continue
                digest, _, nonce = entry.name.partition(".")
                locator = bytes.fromhex(digest) + bytes.fromhex(nonce)
                yield Stored(bytes.fromhex(digest), entry.stat().st_size, locator)

    def delete(self, place: Stored) -> None:
        chunk = self._chunk(place.locator)
        chunk.unlink(missing_ok=True)
        (chunk.parent / f".{chunk.name}").unlink(missing_ok=True)

    def read(self, digest: bytes) -> bytes:
        """Of any place whose bytes are those of the digest. One that the disk does not give is no reason to leave the others
        out (COL-14)."""
        error: OSError | None = None
        folder, names = self._names_of(digest)
        for name in names:
            try:
                data = (folder / name).read_bytes()
            except FileNotFoundError:
                continue
            except OSError as unreadable:
                error = unreadable
                continue
            if self._algorithm.digest(data) == digest:
                return data
        raise StoreError(f"{self.path}: the chunk {digest.hex()} is not there, or damaged"
                         + (f", or cannot be read ({error})" if error else "")) from error

    def _chunk(self, locator: bytes) -> pathlib.Path:
        size = self._algorithm.size_bytes
        digest = locator[:size].hex()
        return self.path / "chunks" / digest[:3] / f"{digest}.{locator[size:].hex()}"

    # Snapshots.

    def publish(self, name: str, body: bytes) -> None:
        if (self._snapshot("snapshots", name)).exists():
            raise FileExistsError(f"{self.path} has a snapshot {name}")
        written = self.path / "tmp" / secrets.token_hex(16)
        _write(written, body)
        _sync(written)
        try:
            os.link(written, self._snapshot("pending", name))
        finally:
            written.unlink()
        _sync(self.path / "pending")

    def withdraw(self, name: str) -> None:
        self._snapshot("pending", name).unlink(missing_ok=True)
        _sync(self.path / "pending")

    def confirm(self, name: str) -> None:
        """It is both for a moment: whoever lists pending ones first sees it in one of them."""
        os.link(self._snapshot("pending", name), self._snapshot("snapshots", name))
        _sync(self.path / "snapshots")
        self.withdraw(name)

    def snapshots(self) -> list[str]:
        return sorted(os.listdir(self.path / "snapshots"))

    def snapshot(self, name: str) -> list[Recipe]:
        return self._recipes("snapshots", name)

    def _recipes(self, folder: str, name: str) -> list[Recipe]:
        path = self._snapshot(folder, name)
        body = path.read_bytes()
        try:
            return decode(body)
        except StoreError as error:
            raise StoreError(f"{path}: {error}") from error

    def forget(self, name: str) -> None:
        """The next collection frees what it alone needs."""
        self._snapshot("snapshots", name).unlink()
        _sync(self.path / "snapshots")

    def restore(self, recipe: Recipe) -> Iterator[bytes]:
        for chunk in recipe.chunks:
            data = self.read(chunk.digest)
            if len(data) != chunk.length:
                raise StoreError(f"{self.path}: a chunk of {len(data)} bytes in the place of {chunk.length}")
            yield data

    def roots(self) -> Iterable[bytes]:
        """For Client.collect: pending ones before others, made durable as they were read (COL-45, COL-47)."""
        for folder in ("pending", "snapshots"):
            for name in sorted(os.listdir(self.path / folder)):
                try:
                    recipes = self._recipes(folder, name)
                except FileNotFoundError:
                    if folder == "pending":
                        continue
                    raise
                yield from digests_of(recipes)
            _sync(self.path / folder)

    def _snapshot(self, folder: str, name: str) -> pathlib.Path:
        if not _NAME.fullmatch(name):
            raise ValueError(f"'{name}' is no name for a snapshot: 1 to 200 of [A-Za-z0-9._-], no . first")
        return self.path / folder / name

    # Epoch, plan, lock.

    def epoch(self) -> int:
        body = (self.path / "epoch").read_bytes()
        number = body.partition(b" ")[0]
        # An epoch that an agent has seen before would hide a collection from it (COL-28).
        if not _EPOCH.fullmatch(number) or body.rstrip() != _epoch_line(int(number)):
            raise StoreError(f"{self.path / 'epoch'} is damaged: end all agents, write '{_epoch_line(FIRST_EPOCH).decode()}' into it, "
                             "and run a collection, which goes on from the index's epoch")
        return int(number)

    def raise_epoch(self, epoch: int) -> None:
        if epoch <= self.epoch():
            raise StoreError(f"the store's epoch is {self.epoch()}, and only rises: not to {epoch}")
        self._replace("epoch", _epoch_line(epoch))

    def plan(self) -> bytes | None:
        try:
            return (self.path / "plan").read_bytes()
        except FileNotFoundError:
            return None

    def write_plan(self, plan: bytes) -> None:
        self._replace("plan", plan)

    def remove_plan(self) -> None:
        (self.path / "plan").unlink(missing_ok=True)
        _sync(self.path)

    @contextmanager
    def lock(self) -> Iterator[None]:
        with open(self.path / "lock", "wb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise Retryable(f"{self.path}: another collection runs") from error
            yield

    def _replace(self, name: str, body: bytes) -> None:
        written = self.path / "tmp" / secrets.token_hex(16)
        _write(written, body)
        _sync(written)
        os.replace(written, self.path / name)
        _sync(self.path)

    def _create(self, name: str, body: bytes) -> None:
        """Leaves what is there."""
        written = self.path / "tmp" / secrets.token_hex(16)
        _write(written, body)
        _sync(written)
        try:
            os.link(written, self.path / name)
        except FileExistsError:
            pass
        finally:
            written.unlink()
        _sync(self.path)


def _epoch_line(epoch: int) -> bytes:
    """The number, and its SHA-256 in hexadecimal."""
    return f"{epoch} {hashlib.sha256(str(epoch).encode()).hexdigest()}".encode()


def _is_whole(path: pathlib.Path, length: int | None) -> bool:
    try:
        there = path.stat().st_size
    except FileNotFoundError:
        return False
    return there > 0 if length is None else there == length


def _make_folder(path: pathlib.Path) -> None:
    """Also those above it, each of them durably: a chunk in a folder that a power cut takes is lost (COL-19)."""
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        return
    except FileNotFoundError:
        _make_folder(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)
    _sync(path.parent)


def _write(path: pathlib.Path, body: bytes) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(file, "wb") as stream:
            stream.write(body)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _sync_all(paths: Iterable[pathlib.Path]) -> None:
    """Many at a time are one turn of the file system's journal."""
    with concurrent.futures.ThreadPoolExecutor(_SYNCS_AT_ONCE) as threads:
        list(threads.map(_sync, paths))


def _sync(path: pathlib.Path) -> None:
    """A file's bytes, or a folder's names."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
