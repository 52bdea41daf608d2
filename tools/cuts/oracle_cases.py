"""The profiles and inputs of tools/oracle, all made from one seed."""

import functools
import math
import pathlib
import random
import sys
import typing

BASE_BYTES = 5 * 1024 * 1024 + 3
LARGEST_MAX = 4 * 1024 * 1024
# Inputs are cut down to about so many chunks.
CHUNKS_AN_INPUT = 1500
# Repetitive data has a smallest hash everywhere: mincdc then looks through `max` bytes for chunks of
# `min`. So many bytes are looked through at most.
MINCDC_SEEN_BYTES = 300_000_000
# Up to here every kind of input gets every edge size; above only the random one.
SMALL_MAX = 64 * 1024
RANDOM_PROFILES = 8

FASTCDC2020_KEYS = ["min", "avg", "max", "level"]
MINCDC_KEYS = ["min", "max"]

FASTCDC2020_EDGES = [
    # The named profiles.
    (1024, 4096, 16384, 1), (2048, 8192, 32768, 1), (4096, 16384, 65536, 1),
    (8192, 32768, 131072, 1), (16384, 65536, 262144, 1),
    # The fewest mask bits at each level, and sizes that leave no place, or few, to look at.
    (64, 1024, 1024, 0), (64, 1024, 1026, 0), (66, 1024, 8192, 0), (1024, 1024, 1024, 0),
    (1022, 1024, 1024, 0), (1024, 1024, 4096, 0), (64, 2048, 2048, 1), (2048, 2048, 2050, 1),
    (64, 4096, LARGEST_MAX, 2), (64, 8192, 65536, 3), (256, 8192, 8192, 3), (8190, 8192, 8194, 2),
    # The most mask bits.
    (64, 1048576, LARGEST_MAX, 3), (64, 1048576, LARGEST_MAX, 0), (1048576, 1048576, LARGEST_MAX, 3),
    (1048576, 1048576, 1048576, 1), (524288, 524288, 1048576, 2),
]

MINCDC_EDGES = [
    # The named profile, and its neighbours of odd sizes.
    (4096, 12288), (4095, 12287), (4097, 12289),
    # From no choice of a place to more places than any vector holds.
    (64, 64), (64, 65), (64, 66), (64, 67), (64, 68), (64, 71), (64, 72), (64, 79), (64, 80), (64, 95),
    (64, 96), (64, 127), (64, 128), (64, 129), (65, 320), (65, 1000), (1000, 1000),
    (1000, LARGEST_MAX), (64, LARGEST_MAX), (2097152, LARGEST_MAX), (LARGEST_MAX - 1, LARGEST_MAX),
    (LARGEST_MAX, LARGEST_MAX),
]


class Profile(typing.NamedTuple):
    algorithm: str
    parameters: dict

    def __str__(self):
        pairs = ",".join(f"{key}={value}" for key, value in self.parameters.items())
        return f"{self.algorithm}:{pairs}"


def parse_profile(text):
    algorithm, _, pairs = text.partition(":")
    keys = {"fastcdc2020": FASTCDC2020_KEYS, "mincdc": MINCDC_KEYS}.get(algorithm)
    parameters = {key: int(value) for key, value in (pair.split("=") for pair in pairs.split(","))}
    if keys is None or sorted(keys) != sorted(parameters):
        sys.exit(f"tools/oracle: {text}: want fastcdc2020 or mincdc with all of its parameters")
    return Profile(algorithm, {key: parameters[key] for key in keys})


def between(generator, low, high):
    """Any size, small ones as likely as large ones."""
    return min(high, max(low, int(low * (high / low) ** generator.random())))


def random_fastcdc2020(generator):
    bits = generator.randint(10, 20)
    avg = 1 << bits
    low = generator.choice([64, avg, between(generator, 64, avg)])
    high = generator.choice([avg, avg + 2, between(generator, avg, LARGEST_MAX), LARGEST_MAX])
    return low & ~1, avg, min(high, LARGEST_MAX) & ~1, generator.randint(0, min(3, bits - 10))


def random_mincdc(generator):
    low = between(generator, 64, 1048576)
    high = generator.choice([low, low + generator.randint(1, 200), between(generator, low, LARGEST_MAX)])
    return low, high


def profiles(seed):
    """Every profile of a run."""
    generator = random.Random(f"{seed}/profiles")
    for algorithm, keys, edges, make in [
            ("fastcdc2020", FASTCDC2020_KEYS, FASTCDC2020_EDGES, random_fastcdc2020),
            ("mincdc", MINCDC_KEYS, MINCDC_EDGES, random_mincdc)]:
        for numbers in edges + [make(generator) for _ in range(RANDOM_PROFILES)]:
            yield Profile(algorithm, dict(zip(keys, numbers)))


def text_bytes(generator):
    words = ["".join(generator.choices("etaoinshrdlu", k=generator.randint(1, 9))) for _ in range(800)]
    lines = (" ".join(generator.choices(words, k=generator.randint(3, 12))) for _ in range(150000))
    return "\n".join(lines).encode()


def sparse_bytes(generator):
    """Zeros with islands, so that runs begin and end everywhere."""
    made = bytearray()
    while len(made) < BASE_BYTES:
        made += bytes(generator.randint(1, 20000)) + generator.randbytes(generator.randint(1, 3000))
    return bytes(made)


def edited_bytes(generator):
    """A block again and again, each time with a few bytes more or less in front of it."""
    block, made = generator.randbytes(30011), bytearray()
    while len(made) < BASE_BYTES:
        made += generator.randbytes(generator.randint(0, 5)) + block[generator.randint(0, 5):]
    return bytes(made)


def period_bytes(generator, low, high):
    period = generator.randbytes(generator.randint(low, high))
    return period * (BASE_BYTES // len(period) + 1)


KINDS = {
    "random": lambda generator: generator.randbytes(BASE_BYTES),
    "zeros": lambda generator: bytes(BASE_BYTES),
    "ones": lambda generator: b"\xff" * BASE_BYTES,
    "constant": lambda generator: bytes([generator.randint(1, 254)]) * BASE_BYTES,
    "text": text_bytes,
    "period": lambda generator: period_bytes(generator, 2, 16),
    "long-period": lambda generator: period_bytes(generator, 17, 9000),
    "two-values": lambda generator: generator.randbytes(BASE_BYTES).translate(
        bytes(generator.choices(generator.choices(range(256), k=2), k=256))),
    "ramp": lambda generator: bytes(range(256)) * (BASE_BYTES // 256 + 1),
    "sparse": sparse_bytes,
    "edited": edited_bytes,
}


@functools.cache
def real_files():
    """Some large files of this machine: programs, and the text of this repository."""
    wanted = [sys.executable, "/usr/bin/bash", "/usr/bin/perl", "/lib/x86_64-linux-gnu/libc.so.6",
              "/usr/bin/openssl", "docs/spec/chunking.md"]
    return [path for path in wanted if pathlib.Path(path).is_file()]


@functools.cache
def whole(seed, kind):
    if kind in KINDS:
        return KINDS[kind](random.Random(f"{seed}/{kind}"))[:BASE_BYTES]
    with open(kind, "rb") as file:
        return file.read(BASE_BYTES)


def input_bytes(seed, name):
    """`name` is KIND:SIZE; a kind with a slash in it is the file of that name."""
    kind, _, size = name.rpartition(":")
    if kind not in KINDS and "/" not in kind:
        sys.exit(f"tools/oracle: {name}: want KIND:SIZE with a kind of {', '.join(KINDS)}, or FILE:SIZE")
    return whole(seed, kind)[:int(size)]


def largest_input(profile, kind="random"):
    """What gives enough chunks, and at least two, in the time there is."""
    p = profile.parameters
    if profile.algorithm == "mincdc" and kind != "random":
        if p["max"] // p["min"] * BASE_BYTES > MINCDC_SEEN_BYTES:
            return min(MINCDC_SEEN_BYTES * p["min"] // p["max"], math.isqrt(MINCDC_SEEN_BYTES * p["min"]))
    usual = min(p["max"], p["min"] + p["avg"] // 2) if "avg" in p else (p["min"] + p["max"]) // 2
    return min(BASE_BYTES, max(CHUNKS_AN_INPUT * usual, 2 * p["max"] + 1))


def edge_sizes(profile):
    p = profile.parameters
    edges = {0, 1, 2, 2 * p["max"], 2 * p["max"] + 1, p["min"] + p["max"]}
    for key in p.keys() - {"level"}:
        edges |= {p[key] - 2, p[key] - 1, p[key], p[key] + 1, p[key] + 2}
    return sorted(edges)


def inputs(seed, profile, first_ends):
    """Names of a profile's inputs. `first_ends`: the first cuts in the largest random input."""
    generator = random.Random(f"{seed}/{profile}")
    sizes = {kind: edge_sizes(profile) for kind in KINDS}
    if profile.parameters["max"] > SMALL_MAX:
        sizes = {kind: sizes[kind] if kind == "random" else [] for kind in KINDS}
    # Files that end about where a chunk would.
    sizes["random"] = sizes["random"] + [end + more for end in first_ends for more in range(-1, 4)]
    for path in real_files():
        sizes[path] = [len(whole(seed, path))]
    names = []
    for kind, wanted in sizes.items():
        largest = min(largest_input(profile, kind), len(whole(seed, kind)))
        wanted = wanted + [largest, generator.randint(largest // 2, largest)]
        names += [f"{kind}:{size}" for size in wanted if size <= largest]
    return list(dict.fromkeys(names))
