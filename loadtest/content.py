"""The bytes of a file without the bytes: a list of stretches of endless streams, or of real files.

A stream is BLAKE3's output for its name, which can be read anywhere, so that a file of any size costs
no memory and two users make the same bytes without talking to each other.
"""

import bisect
import itertools
import os
import typing

import blake3


class Made(typing.NamedTuple):
    name: str

    def read(self, offset, length):
        return blake3.blake3(self.name.encode()).digest(length=length, seek=offset)


class Real(typing.NamedTuple):
    path: str
    # Another modification, another source.
    mtime_ns: int

    def read(self, offset, length):
        with open(self.path, "rb") as file:
            read = os.pread(file.fileno(), length, offset)
        if len(read) != length or os.stat(self.path).st_mtime_ns != self.mtime_ns:
            raise OSError(f"{self.path} changed during the load test: name trees that stand still")
        return read


class Stretch(typing.NamedTuple):
    source: Made | Real
    offset: int
    length: int

    def part(self, begin, end):
        return Stretch(self.source, self.offset + begin, end - begin)


class Content:
    def __init__(self, stretches):
        self.stretches = tuple(stretch for stretch in stretches if stretch.length)
        self._ends = list(itertools.accumulate(stretch.length for stretch in self.stretches))
        self.size = self._ends[-1] if self._ends else 0

    def parts(self, begin, end):
        """The stretches of the bytes from `begin` to `end`."""
        index = bisect.bisect_right(self._ends, begin)
        while begin < end:
            stretch, start = self.stretches[index], self._ends[index] - self.stretches[index].length
            stop = min(end, self._ends[index])
            yield stretch.part(begin - start, stop - start)
            begin, index = stop, index + 1

    def read(self, begin, end):
        return b"".join(part.source.read(part.offset, part.length) for part in self.parts(begin, end))

    def replaced(self, begin, end, stretches):
        return Content([*self.parts(0, begin), *stretches, *self.parts(end, self.size)])
