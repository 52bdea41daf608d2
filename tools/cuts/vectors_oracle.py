#!/usr/bin/env python3
"""Holds the golden vectors against code that shares nothing with kerf: tools/vectors --oracle.

BLAKE3 comes from the PyPI package, SHA-256 and MD5 from Python, AES from the openssl command; the
cut rules are those of cut_rules.py.
"""

import hashlib
import json
import subprocess
import sys

import blake3
from cut_rules import cut, splitmix64


def random_bytes(seed, length):
    values = splitmix64(seed)
    count = (length + 7) // 8
    return b"".join(next(values).to_bytes(8, "little") for _ in range(count))[:length]


def make_input(kind, seed, length):
    """The bytes of a case, or None for the kinds that are not written twice."""
    if kind == "aes-ctr":
        key = "00112233445566778899aabbccddeeff"
        return subprocess.run(["openssl", "enc", "-aes-128-ctr", "-K", key, "-iv", "0" * 32],
                              input=bytes(length), capture_output=True, check=True).stdout
    if kind == "random":
        return random_bytes(seed, length)
    if kind == "constant":
        return bytes([seed]) * length
    if kind == "period":
        return (random_bytes(seed, seed) * (length // seed + 1))[:length]
    if kind == "ramp":
        return bytes(i // (seed + 1) & 255 for i in range(length))
    return None


def short(data):
    return hashlib.sha256(data).hexdigest()[:32]


def check_chunking(path):
    checked = 0
    for case in json.load(open(path, encoding="utf-8"))["cases"]:
        data = make_input(case["input"]["kind"], case["input"]["seed"], case["input"]["length"])
        if data is None:
            continue
        ends = cut(data, case["profile"])
        chunks = [data[a:b] for a, b in zip([0] + ends, ends)]
        made = {
            "chunk_count": len(ends),
            "first_ends": ends[:4],
            "ends_digest": short(b"".join(end.to_bytes(8, "little") for end in ends)),
            "blake3": short(b"".join(blake3.blake3(chunk).digest() for chunk in chunks)),
            "sha256": short(b"".join(hashlib.sha256(chunk).digest() for chunk in chunks)),
        }
        golden = {key: case[key] for key in ("chunk_count", "first_ends", "ends_digest")}
        golden.update({key: case["digests"][key] for key in ("blake3", "sha256")})
        if made != golden:
            sys.exit(f"{path}: {case['input']} {case['profile']}:\n  file {golden}\n  made {made}")
        checked += 1
    print(f"tools/vectors: {path}: {checked} cases are those of the second implementation")


def check_blake3(path):
    cases = json.load(open(path, encoding="utf-8"))["cases"]
    for case in cases:
        made = blake3.blake3(bytes(i % 251 for i in range(case["length"]))).hexdigest()
        if made != case["digest"]:
            sys.exit(f"{path}: length {case['length']}: made {made}, file {case['digest']}")
    print(f"tools/vectors: {path}: {len(cases)} digests are those of the package blake3")


if __name__ == "__main__":
    check_blake3("proto/kerf/v1/vectors/blake3.json")
    check_chunking("proto/kerf/v1/vectors/chunking.json")
