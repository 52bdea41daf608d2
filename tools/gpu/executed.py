#!/usr/bin/env python3
"""Holds what warps execute of the CUDA kernels to kernels/cuda/executed_limits.txt.

tools/gpu/executed.py LIMITS COUNTS: COUNTS is what kernels/cuda/ptx/executed_counts has printed. Prints
what each kernel takes, then what is wrong, and fails if anything is. With --write in front it writes
LIMITS anew, of what there is, and keeps the file's comments.
"""

import sys

import sass

DATA = ("random", "text", "sparse")
WARP_LANES = 32
# A limit is so much more than what was measured, so that a kernel that is a tenth dearer is above it.
SLACK = 1.05
# One that is further away than this would let a tenth pass.
MOST_SLACK = 1.08
# Figures are rounded up to one of so many places; smaller ones are of nothing.
PLACES = 4


class Counts:
    """Of one kernel."""

    def __init__(self):
        # By data: instructions that warps have issued, times the lanes of a warp, for each byte.
        self.slots = {}
        self.bytes = self.issued = self.lanes = self.loaded = self.stored = 0

    def add(self, data, size, issued, lanes, loaded, stored):
        self.slots[data] = WARP_LANES * issued / size
        self.bytes += size
        self.issued += issued
        self.lanes += lanes
        self.loaded += loaded
        self.stored += stored

    def figures(self):
        """What is limited: slots of each data, bytes loaded and stored, for each byte."""
        return [self.slots.get(data, 0.0) for data in DATA] + [self.loaded / self.bytes, self.stored / self.bytes]

    def lanes_a_slot(self):
        return self.lanes / self.issued


NAMES = tuple(f"issue slots a byte of {data} data" for data in DATA) + ("bytes loaded a byte", "bytes stored a byte")


def parse_counts(text, names_of=sass.kernel_names):
    """{kernel: Counts} of what executed_counts prints."""
    rows = [line.split("\t") for line in text.splitlines()]
    names = names_of(sorted({row[1] for row in rows}))
    counts = {}
    for data, name, *numbers in rows:
        if data not in DATA:
            raise ValueError(f"no limits are for {data} data")
        counts.setdefault(names[name], Counts()).add(data, *map(int, numbers))
    return counts


def parse_limits(text):
    """{kernel: [limits, as Counts.figures() has them]}."""
    limits = {}
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        *figures, kernel = line.split(None, len(NAMES))
        if kernel in limits:
            raise ValueError(f"{kernel} has two lines")
        limits[kernel] = [float(figure) for figure in figures]
    return limits


def rounded_up(figure):
    """SLACK above it."""
    return 0.0 if figure == 0 else round(figure * SLACK + 0.5 * 10 ** -PLACES, PLACES)


def check(kernel, counts, limits):
    """What is wrong with one kernel."""
    wrong = []
    for name, figure, limit in zip(NAMES, counts.figures(), limits):
        if figure > limit:
            wrong.append(f"{kernel}: {figure:.4f} {name}, {limit:g} are allowed")
        elif limit > max(figure * MOST_SLACK, rounded_up(figure)):
            wrong.append(f"{kernel}: {figure:.4f} {name}, and {limit:g} are allowed: the limit is to be lowered to "
                         f"{rounded_up(figure):g}")
    return wrong


def check_all(counts, limits, limits_path):
    wrong = []
    for kernel in sorted(counts.keys() | limits.keys()):
        if kernel not in limits:
            wrong.append(f"{kernel} has no line in {limits_path}")
        elif kernel not in counts:
            wrong.append(f"{kernel} of {limits_path} was not run")
        else:
            wrong += check(kernel, counts[kernel], limits[kernel])
    return wrong


def row(figures, kernel):
    return "".join(f"{figure:10.{PLACES}f}" for figure in figures) + f"  {kernel}\n"


def main():
    arguments = sys.argv[1:]
    is_written = arguments[0] == "--write"
    limits_path, counts_path = arguments[is_written:]
    with open(counts_path, encoding="utf-8") as file:
        counts = parse_counts(file.read())
    with open(limits_path, encoding="utf-8") as file:
        text = file.read()
    if is_written:
        comments = [line + "\n" for line in text.splitlines() if line.startswith("#")]
        rows = [row(map(rounded_up, each.figures()), kernel) for kernel, each in sorted(counts.items())]
        with open(limits_path, "w", encoding="utf-8") as file:
            file.writelines(comments + rows)
        return 0
    for kernel, each in sorted(counts.items()):
        print(row(each.figures(), f"{each.lanes_a_slot():4.1f} lanes  {kernel}"), end="")
    wrong = check_all(counts, parse_limits(text), limits_path)
    for each in wrong:
        print(f"tools/sass: {each}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
