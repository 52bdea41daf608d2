"""Recipes of files, and the text in which a snapshot keeps them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from kerf.errors import StoreError

_VERSION = 1
_SUM_BYTES = 32


class Chunk(NamedTuple):
    digest: bytes
    length: int


class Seen(NamedTuple):
    """What an agent read in the store before the first verdict (COL-2): what COL-28 compares with."""

    epoch: int
    has_plan: bool


@dataclass(frozen=True, slots=True)
class Recipe:
    """A file: its chunks in order. Everything that it names is durable in the store."""

    key: bytes
    size: int
    chunks: tuple[Chunk, ...]
    seen: Seen
    # What this upload had to store.
    new_chunks: int = 0
    new_bytes: int = 0
    # Of its chunks the index has not been told of so many: the next backup stores or finds them again. Nothing is lost.
    untold_chunks: int = 0
    # The highest epoch that the index has told the streams of it; 0: none.
    index_epoch: int = 0

    @property
    def is_overtaken(self) -> bool:
        """A collection has begun since `seen` was read, whatever the store says: a snapshot looks at all chunks (COL-81)."""
        return self.index_epoch > self.seen.epoch


def encode(recipes: Iterable[Recipe]) -> bytes:
    """The body of a snapshot: a SHA-256 of the rest, and JSON (CLI-29)."""
    files = [{"key": recipe.key.hex(), "size": recipe.size,
              "chunks": [[chunk.digest.hex(), chunk.length] for chunk in recipe.chunks]} for recipe in recipes]
    text = json.dumps({"version": _VERSION, "files": files}, separators=(",", ":")).encode()
    return hashlib.sha256(text).digest() + text


def decode(body: bytes, seen: Seen = Seen(0, True)) -> list[Recipe]:
    """The recipes of a snapshot. Unless it is said otherwise they were seen before any epoch, so that they are always
    looked up (COL-36). StoreError for one that is damaged: with one digit of it another, a collection would take the chunk
    that it means for garbage."""
    rest = body[_SUM_BYTES:]
    if hashlib.sha256(rest).digest() != body[:_SUM_BYTES]:
        raise StoreError("a snapshot that is damaged, or none: its SHA-256 is another. Put a sound copy of it in its place; "
                         "where there is none, remove it: its files are then lost, and collections run again")
    try:
        text = json.loads(rest)
        if text["version"] != _VERSION:
            raise StoreError(f"a snapshot of version {text['version']}: a newer kerf wrote it, and reads it")
        return [_file(file, seen) for file in text["files"]]
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(f"a snapshot that is none: {error}") from error


def _file(file: dict[str, object], seen: Seen) -> Recipe:
    listed = file["chunks"]
    if not isinstance(listed, list):
        raise ValueError("chunks")
    chunks = tuple(Chunk(bytes.fromhex(digest), int(length)) for digest, length in listed)
    size = int(str(file["size"]))
    if any(chunk.length < 1 for chunk in chunks) or sum(chunk.length for chunk in chunks) != size:
        raise ValueError("a file whose chunks are not its size")
    return Recipe(bytes.fromhex(str(file["key"])), size, chunks, seen)


def digests_of(recipes: Iterable[Recipe]) -> Iterator[bytes]:
    for recipe in recipes:
        for chunk in recipe.chunks:
            yield chunk.digest
