"""The cut rules of docs/spec/chunking.md a second time, for tools/vectors --oracle.

Each rule takes the bytes from the start of a chunk, as many as the profile's largest chunk at most
(but all that are left), and the profile's parameters, and returns the chunk's length.
"""

import functools
import hashlib

WORD = (1 << 64) - 1
MASKS_2020 = {
    10: 0x0000590003530000, 11: 0x0000D90003530000, 12: 0x0000D90103530000,
    13: 0x0000D90303530000, 14: 0x0000D90313530000, 15: 0x0000D90F03530000,
    16: 0x0000D90303537000, 17: 0x0000D90703537000,
}
RABIN_POLYNOMIAL = 0x3DA3358B4DC173


def splitmix64(seed):
    while True:
        seed = (seed + 0x9E3779B97F4A7C15) & WORD
        value = seed
        value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & WORD
        value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & WORD
        yield value ^ (value >> 31)


@functools.cache
def gear_2020():
    return [int.from_bytes(hashlib.md5(bytes([x]) * 64).digest()[:8], "big") for x in range(256)]


@functools.cache
def gear_kerf():
    values = splitmix64(1595)
    return [next(values) >> 32 for _ in range(256)]


def fastcdc(b, p, gear, word, mask_of, unit):
    n = min(len(b), p["max"])
    if len(b) <= p["min"]:
        return len(b)
    bits = p["avg"].bit_length() - 1
    strict, loose = mask_of(bits + p["level"]), mask_of(bits - p["level"])
    rolled = 0
    for i in range(p["min"], n - n % unit):
        rolled = ((rolled << 1) + gear[b[i]]) & word
        if rolled & (strict if i < p["avg"] else loose) == 0:
            return i
    return n


def fastcdc_kerf(b, p):
    mask_of = lambda bits: sum(1 << (31 - 7 * k % 24) for k in range(bits))
    return fastcdc(b, p, gear_kerf(), (1 << 32) - 1, mask_of, 1)


def fastcdc_2020(b, p):
    return fastcdc(b, p, gear_2020(), WORD, MASKS_2020.__getitem__, 2)


def fixed(b, p):
    return min(len(b), p["size"])


@functools.cache
def rabin_tables():
    def residue(value):
        for i in range(value.bit_length() - 1, 52, -1):
            if value >> i & 1:
                value ^= RABIN_POLYNOMIAL << (i - 53)
        return value
    leaves = [residue(x << (8 * 47)) for x in range(256)]
    reduces = [residue(x << 53) | x << 53 for x in range(256)]
    return leaves, reduces


def rabin_digests(b, begin, end):
    """(i, digest after byte i) from a window of 47 zeros and a 1."""
    leaves, reduces = rabin_tables()
    window, digest = [0] * 47 + [1], 1
    for i in range(begin, end):
        digest ^= leaves[window.pop(0)]
        window.append(b[i])
        digest = (digest << 8 | b[i]) ^ reduces[digest >> 45]
        yield i, digest


def rabin(b, p):
    n = min(len(b), p["max"])
    for i, digest in rabin_digests(b, 0, n):
        if i + 1 >= p["min"] and digest % p["avg"] == 0:
            return i + 1
    return n


def tttd(b, p):
    n, backup = min(len(b), p["max"]), 0
    for i, digest in rabin_digests(b, p["min"], n):
        if digest % p["avg"] == 0:
            return i
        if digest % (p["avg"] // 2) == 0:
            backup = i
    return backup or n


@functools.cache
def crc_tables():
    def advance(crc, count):
        for _ in range(8 * count):
            crc = crc >> 1 ^ (0xEDB88320 if crc & 1 else 0)
        return crc
    return [advance(x, 1) for x in range(256)], [advance(x, 257) for x in range(256)]


def crc(b, p):
    n = min(len(b), p["max"])
    if n <= p["min"]:
        return n
    enters, leaves = crc_tables()
    value = 0
    for i in range(p["min"] - 256, n):
        value = enters[(value ^ b[i]) & 255] ^ value >> 8
        if i >= p["min"]:
            value ^= leaves[b[i - 256]]
            if value % (1 << p["bits"]) == 0:
                return i
    return n


def ae(b, p, sign):
    n, position = min(len(b), p["max"]), 0
    for i in range(1, n):
        if sign * b[i] > sign * b[position]:
            position = i
        elif i == position + p["window"]:
            return i
    return n


def ram(b, p):
    n, w = min(len(b), p["max"]), p["window"]
    if n <= w:
        return n
    maximum = max(b[:w])
    return next((i for i in range(w, n) if b[i] >= maximum), n)


def maxp(b, p):
    n, w = min(len(b), p["max"]), p["window"]
    if n < 2 * w + 1:
        return n
    position = w
    for i in range(w, n - 1):
        if b[i] >= b[position]:
            position = i
        elif i == position + w:
            if max(b[position - w:position]) <= b[position]:
                return position
            position = i + 1
    return n


def maxp_local(b, p):
    n, w = min(len(b), p["max"]), p["window"]
    for i in range(w, n - w):
        # Its neighbours first: few get to the windows.
        if b[i - 1] < b[i] > b[i + 1] and b[i] > max(b[i - w:i]) and b[i] > max(b[i + 1:i + w + 1]):
            return i
    return n


def seqcdc(b, p):
    if len(b) < p["min"]:
        return len(b)
    n, sign = min(len(b), p["max"]), 1 if p["mode"] == "increasing" else -1
    i, wanted, opposite = p["min"], 0, 0
    while i < n:
        step = sign * (b[i] - b[i - 1])
        i += 1
        if step > 0:
            wanted += 1
            if wanted == p["length"]:
                return i - 1
        elif step < 0:
            wanted, opposite = 0, opposite + 1
            if opposite == p["trigger"]:
                i, opposite = i + p["skip"], 0
    return n


def mincdc(b, p):
    if len(b) <= p["min"]:
        return len(b)
    n = min(len(b), p["max"])
    value = lambda i: (int.from_bytes(b[i - 4:i], "little") * 0x915F77F5 + 0x34636463) % (1 << 32)
    return min(range(p["min"], n + 1), key=value)


@functools.cache
def gear_affine():
    """Nine words: those with which no run of one byte hashes to less than 2^8 in 16 bits."""
    good = lambda value: all((value * (2**j - 1)) % 65536 >= 256 for j in range(1, 17))
    outputs = (value >> 32 for value in splitmix64(0))
    table = [next(outputs)]
    assert good(table[0])
    for _ in range(8):
        word = next(w for w in outputs if all(good(value ^ w) for value in table))
        table += [value ^ word for value in table]
    return table


def gear(b, p):
    if len(b) <= p["min"]:
        return len(b)
    table, n, rolled = gear_affine(), min(len(b), p["max"]), 0
    for i in range(p["min"], n):
        rolled = (2 * rolled + table[b[i]]) % 65536
        if rolled * p["avg"] < 65536:
            return i
    return n


def maxcdc(b, p):
    if len(b) <= p["min"]:
        return len(b)
    table, rolled, hashes = gear_affine(), 0, {}
    for i in range(p["min"] - 32, min(len(b), p["max"])):
        rolled = (2 * rolled + table[b[i]]) % (1 << 32)
        if i + 1 >= p["min"]:
            hashes[i + 1] = rolled
    return max(hashes, key=hashes.get)


RULES = {
    "fixed": fixed, "rabin": rabin, "crc": crc, "tttd": tttd,
    "fastcdc": fastcdc_kerf, "fastcdc2020": fastcdc_2020,
    "ae-max": lambda b, p: ae(b, p, 1), "ae-min": lambda b, p: ae(b, p, -1),
    "maxp": maxp, "maxp-local": maxp_local, "ram": ram, "seqcdc": seqcdc, "mincdc": mincdc,
    "gear": gear, "maxcdc": maxcdc,
}


def cut(data, profile):
    """Ends of all chunks."""
    name, text = profile.split(":")
    parameters = dict(pair.split("=") for pair in text.split(","))
    parameters = {key: int(value) if value.isdigit() else value for key, value in parameters.items()}
    largest = parameters.get("max") or parameters["size"]
    ends, start = [], 0
    while start < len(data):
        start += RULES[name](data[start:start + largest], parameters)
        ends.append(start)
    return ends
