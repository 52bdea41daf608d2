#!/usr/bin/env python3
"""Compares the cuts of kerf with those of other implementations; called by tools/oracle.

Every profile of oracle_cases.py and each of its inputs goes through `kerf chunk` with every backend
that runs here and through every peer that knows the algorithm; all have to give the same chunks.
"""

import argparse
import collections
import concurrent.futures
import importlib.metadata
import itertools
import json
import os
import pathlib
import re
import secrets
import subprocess
import sys
import tempfile
import tomllib

import oracle_cases

FIRST_ENDS = 6
# kerf's exit status for flags that it does not take.
USAGE_STATUS = 2
# Of one peer and one backend; of a profile only the smallest input is shown.
MAX_REPORTED = 3


def check_lock(folder):
    """What cargo took is what Cargo.toml names, byte for byte; nothing else came along."""
    manifest = tomllib.loads((folder / "Cargo.toml").read_text(encoding="utf-8"))
    wanted = manifest["package"]["metadata"]["sha256"]
    lock = tomllib.loads((folder / "Cargo.lock").read_text(encoding="utf-8"))
    taken = {package["name"]: package.get("checksum") for package in lock["package"]}
    del taken[manifest["package"]["name"]]
    if taken != wanted:
        sys.exit(f"tools/oracle: {folder}/Cargo.lock: cargo takes {taken}, Cargo.toml wants {wanted}")
    return {name: text.lstrip("=") for name, text in manifest["dependencies"].items()}


def run(command, folder):
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    if done.returncode != 0:
        sys.exit(f"tools/oracle: {' '.join(command[:8])} ...: exit status {done.returncode}: "
                 f"{(done.stderr or done.stdout).decode(errors='replace')[-2000:]}")
    return done.stdout


class Kerf:
    def __init__(self, program, backends):
        self.program, self.wanted = program, backends
        self.usable = {}

    def names_of_backends(self):
        """Of all that were compiled in, "auto" left out; kerf says them to who asks for another."""
        done = subprocess.run([self.program, "chunk", "--backend", "?", os.devnull],
                              capture_output=True, text=True, check=False)
        names = re.search(r"there are auto, ([a-z0-9, ]+)", done.stderr)
        if not names:
            sys.exit(f"tools/oracle: kerf does not name its backends: {done.stderr}")
        return names[1].split(", ")

    def backends(self, profile):
        """Those that this machine runs and that cut by this algorithm."""
        if profile.algorithm not in self.usable:
            compiled = self.names_of_backends()
            if not set(self.wanted or []) <= set(compiled):
                sys.exit(f"tools/oracle: --backends: this kerf has {', '.join(compiled)}")
            probe = [self.program, "chunk", "--profile", str(profile), "--backend"]
            self.usable[profile.algorithm] = [
                name for name in self.wanted or compiled if self.can(probe + [name, os.devnull])]
            if not self.usable[profile.algorithm]:
                sys.exit(f"tools/oracle: no backend of kerf cuts by {profile} here")
        return self.usable[profile.algorithm]

    def can(self, command):
        """No is a refusal of the flags; anything else is an error and not passed over."""
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode not in (0, USAGE_STATUS):
            sys.exit(f"tools/oracle: {' '.join(command)}: exit status {done.returncode}: {done.stderr}")
        return done.returncode == 0

    def output(self, profile, backend, folder, names):
        return run([self.program, "chunk", "--json", "--digest", "xxh3-128", "--backend", backend,
                    "--profile", str(profile), *names], folder)

    def lengths(self, output, names):
        """Of each file."""
        lengths = {name: [] for name in names}
        ends = collections.Counter()
        # In one go: a call for each of a million lines takes five times as long.
        for chunk in json.loads(b"[" + b",".join(output.splitlines()) + b"]"):
            name = chunk["file"]
            if chunk["offset"] != ends[name]:
                sys.exit(f"tools/oracle: kerf: chunks do not join: {chunk}")
            ends[name] += chunk["length"]
            lengths[name].append(chunk["length"])
        return [lengths[name] for name in names]

    def cut(self, profile, backend, folder, names):
        return self.lengths(self.output(profile, backend, folder, names), names)


class Crates:
    """The Rust program of oracle_peers/."""

    def __init__(self, program):
        self.program = program

    def cut(self, profile, folder, names):
        numbers = [str(value) for value in profile.parameters.values()]
        output = run([self.program, profile.algorithm, *numbers, *names], folder)
        return [[int(length) for length in line.split()] for line in output.split(b"\n")[:-1]]


class PyFastCdc:
    def cut(self, profile, folder, names):
        import pyfastcdc  # Not there for --check-lock.
        p = profile.parameters
        chunker = pyfastcdc.FastCDC(p["avg"], min_size=p["min"], max_size=p["max"],
                                    normalized_chunking=p["level"])
        return [[chunk.length for chunk in chunker.cut_buf((folder / name).read_bytes())]
                for name in names]


class Comparison:
    def __init__(self, options):
        self.seed = options.seed
        self.kerf = Kerf(options.kerf, options.backends)
        crates = Crates(options.crates)
        versions = check_lock(pathlib.Path("out/oracle/oracle_peers"))
        python = f"PyPI pyfastcdc {importlib.metadata.version('pyfastcdc')}"
        self.peers = {
            "fastcdc2020": {f"crate fastcdc {versions['fastcdc']}": crates, python: PyFastCdc()},
            "mincdc": {f"crate mincdc {versions['mincdc']}": crates},
        }
        self.profiles, self.inputs = collections.Counter(), collections.Counter()
        self.cuts, self.bytes, self.backends = collections.Counter(), collections.Counter(), {}
        self.differences, self.profiles_different = collections.Counter(), collections.Counter()

    def first_ends(self, profile, folder):
        (folder / "first").write_bytes(
            oracle_cases.input_bytes(self.seed, f"random:{oracle_cases.largest_input(profile)}"))
        lengths = self.kerf.cut(profile, self.kerf.backends(profile)[0], folder, ["first"])[0]
        return list(itertools.accumulate(lengths[:FIRST_ENDS]))

    def compare(self, profile, names):
        with tempfile.TemporaryDirectory() as work:
            folder = pathlib.Path(work)
            names = names or oracle_cases.inputs(self.seed, profile, self.first_ends(profile, folder))
            files = [str(index) for index in range(len(names))]
            sizes = []
            for file, name in zip(files, names):
                sizes.append((folder / file).write_bytes(oracle_cases.input_bytes(self.seed, name)))
            backends, peers = self.kerf.backends(profile), self.peers[profile.algorithm]
            # They are programs, so that threads are enough for all cores.
            with concurrent.futures.ThreadPoolExecutor() as pool:
                outputs = pool.map(lambda name: self.kerf.output(profile, name, folder, files), backends)
                lists = pool.map(lambda peer: peer.cut(profile, folder, files), peers.values())
                outputs, lists = dict(zip(backends, outputs)), dict(zip(peers, lists))
            # Most of them are the same bytes: read once.
            ours = {output: self.kerf.lengths(output, files) for output in set(outputs.values())}
            for peer_name, theirs in lists.items():
                for backend, output in outputs.items():
                    self.judge(profile, [f"kerf --backend {backend}", peer_name],
                               sorted(zip(sizes, names, ours[output], theirs, strict=True)))
                self.backends[peer_name] = backends
                self.profiles[peer_name] += 1
                self.inputs[peer_name] += len(names)
                self.cuts[peer_name] += sum(map(len, theirs))
                self.bytes[peer_name] += sum(sizes)

    def judge(self, profile, who, cases):
        """`cases`: (size, name, lengths of who[0], lengths of who[1]), the smallest first."""
        different = [case for case in cases if case[2] != case[3]]
        for size, name, *lengths in cases:
            for one, its_lengths in zip(who, lengths):
                if sum(its_lengths) != size or 0 in its_lengths:
                    sys.exit(f"tools/oracle: {one}: {profile} {name}: chunks of {sum(its_lengths)} bytes "
                             f"in all of {size}, {its_lengths.count(0)} of them empty")
        if not different:
            return
        self.differences[tuple(who)] += len(different)
        self.profiles_different[tuple(who)] += 1
        if self.profiles_different[tuple(who)] > MAX_REPORTED:
            return
        size, name, *lengths = different[0]
        index = next(i for i, (a, b) in enumerate(zip(*lengths)) if a != b)
        start = sum(lengths[0][:index])
        print(f"tools/oracle: DIFFERENT CUTS: {profile}, input {name} ({size} bytes), seed {self.seed}\n"
              f"  chunk {index} begins at {start}\n"
              f"  and ends at {start + lengths[0][index]}: {who[0]}\n"
              f"  and ends at {start + lengths[1][index]}: {who[1]}\n"
              f"  {len(different)} of the {len(cases)} inputs of this profile differ\n"
              f"  replay: tools/oracle --seed {self.seed} --profile {profile} --input {name}", flush=True)

    def check_that_it_can_fail(self):
        """Another level or minimum is seen as a difference, with every peer."""
        asked = {"fastcdc2020": "fastcdc2020:min=2048,avg=8192,max=32768,level=1",
                 "mincdc": "mincdc:min=4096,max=12288"}
        other = {"fastcdc2020": "fastcdc2020:min=2048,avg=8192,max=32768,level=2",
                 "mincdc": "mincdc:min=2048,max=12288"}
        with tempfile.TemporaryDirectory() as work:
            folder = pathlib.Path(work)
            (folder / "0").write_bytes(oracle_cases.input_bytes(self.seed, "random:1000000"))
            for algorithm, peers in self.peers.items():
                for peer_name, peer in peers.items():
                    theirs = peer.cut(oracle_cases.parse_profile(other[algorithm]), folder, ["0"])
                    profile = oracle_cases.parse_profile(asked[algorithm])
                    for backend in self.kerf.backends(profile):
                        if self.kerf.cut(profile, backend, folder, ["0"]) == theirs:
                            sys.exit(f"tools/oracle: {other[algorithm]} of {peer_name} cuts as kerf's "
                                     f"{profile}: nothing is compared")

    def report(self):
        for name, count in self.profiles.items():
            print(f"tools/oracle: {name}: {count} profiles, {self.inputs[name]} inputs, "
                  f"{self.bytes[name] / 1e6:.0f} MB, {self.cuts[name]} cuts, backends "
                  f"{', '.join(self.backends[name])}")
        for (kerf, peer), count in self.differences.items():
            print(f"tools/oracle: {kerf} and {peer} cut {count} inputs of "
                  f"{self.profiles_different[kerf, peer]} profiles differently (seed {self.seed})")
        if self.differences:
            return 1
        print(f"tools/oracle: all cuts agree (seed {self.seed})")
        return 0


def main():
    parser = argparse.ArgumentParser(prog="tools/oracle", description=__doc__)
    parser.add_argument("--seed", default=os.environ.get("KERF_TEST_SEED") or str(secrets.randbelow(10**9)),
                        help="what all inputs and some profiles are made from (KERF_TEST_SEED, or a new one)")
    parser.add_argument("--profile", help="only this one: fastcdc2020:... or mincdc:...")
    parser.add_argument("--input", help="only this one: KIND:SIZE as a difference names it")
    parser.add_argument("--backends", type=lambda text: text.split(","), 
                        help="kernels of kerf, with commas; all that run here unless named")
    parser.add_argument("--kerf", help="a kerf that is there already; without it, one is built")
    parser.add_argument("--crates", help=argparse.SUPPRESS)
    parser.add_argument("--check-lock", help=argparse.SUPPRESS, type=pathlib.Path)
    options = parser.parse_args()
    if options.check_lock:
        check_lock(options.check_lock)
        return 0
    options.kerf, options.crates = os.path.realpath(options.kerf), os.path.realpath(options.crates)
    comparison = Comparison(options)
    comparison.check_that_it_can_fail()
    profiles = ([oracle_cases.parse_profile(options.profile)] if options.profile
                else oracle_cases.profiles(options.seed))
    for profile in profiles:
        comparison.compare(profile, [options.input] if options.input else None)
    return comparison.report()


if __name__ == "__main__":
    sys.exit(main())
