"""What an upload costs the client, beside a kerfd: tests/cost.py SERVER [MIB]. CPU seconds of this process for each GiB, of
new data and of known; memory; the store costs nothing here."""

import resource
import sys
import time

import kerf


class Nothing:
    """A store whose callbacks are as cheap as can be."""

    def __init__(self):
        self.places = {}

    def put(self, digest, data):
        self.places[digest] = [digest]
        return digest

    def has(self, digest):
        return self.places.get(digest, [])

    def sync(self):
        pass


class Random:
    """New bytes, or the same again."""

    def __init__(self, block, size):
        self.block, self.left, self.turn = block, size, 0

    def read(self, size):
        size = min(size, self.left, len(self.block))
        self.left -= size
        self.turn += 1
        return self.turn.to_bytes(8, "little") + self.block[8:size] if size else b""


def main():
    size = (int(sys.argv[2]) if len(sys.argv) > 2 else 64) << 20
    block = open("/dev/urandom", "rb").read(1 << 20)
    for profile, digest in (("mincdc-8k", "blake3"), ("mincdc-8k", "sha256"), ("fastcdc2020-64k", "blake3")):
        repository = f"cost-{profile}-{time.time_ns()}"
        with kerf.open(sys.argv[1], repository, Nothing(), profile=profile, digest=digest) as client:
            line = f"{profile:16} {digest:7}"
            for what in ("new", "known"):
                cpu, wall = time.process_time(), time.monotonic()
                recipe = client.upload(Random(block, size), b"file")
                assert (recipe.new_bytes > 0) == (what == "new")
                cpu, wall = time.process_time() - cpu, time.monotonic() - wall
                line += f"  {what}: {cpu * (1 << 30) / size:5.1f} CPU s/GiB, {size / wall / (1 << 20):4.0f} MiB/s"
            print(f"{line}  {len(recipe.chunks)} chunks, {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MiB resident")


if __name__ == "__main__":
    main()
