#!/usr/bin/env python3
"""Holds the golden vectors against code that shares nothing with kerf: tools/vectors --oracle.

BLAKE3 comes from the PyPI package, SHA-256 and MD5 from Python, AES from the openssl command; the
cut rules are written here once more from docs/spec/chunking.md..
"""

import hashlib
import json
import subprocess
import sys

import blake3

WORD = (1 << 64) - 1
MASKS_2020 = {
    10: 0x0000590003530000, 11: 0x0000D90003530000, 12: 0x0000D90103530000,
    13: 0x0000D90303530000, 14: 0x0000D90313530000, 15: 0x0000D90F03530000,
    16: 0x0000D90303537000, 17: 0x0000D90703537000,
}


def splitmix64(seed):
    while True:
        seed = (seed + 0x9E3779B97F4A7C15) & WORD
        value = seed
        value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & WORD
        value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & WORD
        yield value ^ (value >> 31)


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


def gear_2020():
    return [int.from_bytes(hashlib.md5(bytes([x]) * 64).digest()[:8], "big") for x in range(256)]


def gear_kerf():
    values = splitmix64(1595)
    return [next(values) >> 32 for _ in range(256)]


def cut(data, profile):
    """Ends of all chunks."""
    name, parameters = profile.split(":")
    values = {key: int(value) for key, value in (p.split("=") for p in parameters.split(","))}
    bits = values["avg"].bit_length() - 1
    strict, loose = bits + values["level"], bits - values["level"]
    if name == "fastcdc2020":
        gear, word, unit = gear_2020(), WORD, 2
        strict, loose = MASKS_2020[strict], MASKS_2020[loose]
    else:
        gear, word, unit = gear_kerf(), (1 << 32) - 1, 1
        strict, loose = (sum(1 << (31 - 7 * k % 24) for k in range(n)) for n in (strict, loose))
    ends, start = [], 0
    while start < len(data):
        size = min(len(data) - start, values["max"])
        length, rolled = size, 0
        for i in range(values["min"], size - size % unit):
            rolled = ((rolled << 1) + gear[data[start + i]]) & word
            if rolled & (strict if i < values["avg"] else loose) == 0:
                length = i
                break
        start += length
        ends.append(start)
    return ends


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
