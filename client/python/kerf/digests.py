"""Fingerprints and checks of chunks (docs/spec/chunking.md, Fingerprints)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import NamedTuple

import xxhash

try:
    from blake3 import blake3 as _blake3
except ImportError:  # SHA-256 is there always.
    _blake3 = None  # type: ignore[assignment, misc]


class Algorithm(NamedTuple):
    """How the chunks of a repository are named."""

    name: str
    # DigestAlgorithm of chunking.proto.
    number: int
    size_bytes: int
    digest: Callable[[bytes | memoryview], bytes]


def _blake3_digest(data: bytes | memoryview) -> bytes:
    return bytes(_blake3(data).digest())


def _sha256_digest(data: bytes | memoryview) -> bytes:
    return hashlib.sha256(data).digest()


def _xxh3_128_digest(data: bytes | memoryview) -> bytes:
    return xxhash.xxh3_128_digest(data)


_ALGORITHMS = {
    "blake3": Algorithm("blake3", 1, 32, _blake3_digest),
    "sha256": Algorithm("sha256", 2, 32, _sha256_digest),
    "xxh3-128": Algorithm("xxh3-128", 3, 16, _xxh3_128_digest),
}


def algorithm(name: str) -> Algorithm:
    """By its name; ValueError for one that is not known, ImportError where its library is not here."""
    if name not in _ALGORITHMS:
        raise ValueError(f"no digest algorithm '{name}': {', '.join(_ALGORITHMS)}")
    if name == "blake3" and _blake3 is None:
        raise ImportError("BLAKE3 needs the package blake3: pip install kerf[blake3], or digest='sha256'")
    return _ALGORITHMS[name]


def check_of(data: bytes | memoryview) -> int:
    """XXH3-64, seed 0: Chunk.check."""
    return xxhash.xxh3_64_intdigest(data)


class ContentHash:
    """XXH3-128 of what one stream carries of a file: FileEnd.content_hash."""

    def __init__(self) -> None:
        self._state = xxhash.xxh3_128()

    def update(self, data: bytes | memoryview) -> None:
        self._state.update(data)

    def digest(self) -> bytes:
        return self._state.digest()
