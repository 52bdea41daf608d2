"""What a program is made of, from what the linker and the compiler wrote down: which members of which archives the linker took,
and which headers went into the objects of kerf.

Bazel leaves the words of each link behind. They are said again, with a map asked for; only when that makes the very same bytes
does the map tell of the program that lies in out/.
"""

import dataclasses
import filecmp
import os
import pathlib
import re
import subprocess
import tempfile

COMPILER = "/usr/bin/gcc"
LINK_S = 300
# "0x0000000000000000       0x40 PATH(MEMBER)": a section and whose it is; a long name of a section has a line of its own.
_MEMORY_MAP = re.compile(r"^(?:Memory map|Linker script and memory map)\n", re.M)
_PLACED = re.compile(r"0x[0-9a-f]+ +0x[0-9a-f]+ (/?[^\s*(][^\s(]*)(?:\(([^)\s]+)\))?$", re.M)
# Of objects of kerf's, which Bazel keeps beside it.
_OWN_ARCHIVE = re.compile(r"(bazel-out/.*)/lib([^/]*)\.(?:a|lo)")


class Failed(Exception):
    """What a person is told."""


@dataclasses.dataclass(frozen=True)
class Linked:
    # Archive -> how many members of it are in the program.
    archives: dict
    # What is not in an archive: kerf's own objects, below bazel-out, and what the compiler adds (crt1.o).
    objects: frozenset


def read(text):
    """The parts that have a place in the program: an archive of which nothing was taken is in no memory map."""
    found = _MEMORY_MAP.search(text)
    if not found:
        raise Failed("the linker's map has no memory map: is it gold, or ld.bfd, that links?")
    members, objects = {}, set()
    for path, member in _PLACED.findall(text, found.end()):
        if own := _OWN_ARCHIVE.fullmatch(path):
            objects.add(f"{own[1]}/_objs/{own[2]}/{member}")
        elif member:
            members.setdefault(path, set()).add(member)
        else:
            objects.add(path)
    return Linked({path: len(names) for path, names in members.items()}, frozenset(objects))


def relink(execution_root, target, program, configuration="k8-opt"):
    """The map of `program`, which Bazel has linked as `target` (server/kerfd)."""
    parameters = execution_root / "bazel-out" / configuration / "bin" / f"{target}-2.params"
    if not parameters.is_file():
        raise Failed(f"{parameters} is missing: tools/build leaves it")
    words = parameters.read_text(encoding="utf-8").splitlines()
    with tempfile.TemporaryDirectory(prefix="kerf-link-") as name:
        again, link_map, said = (pathlib.Path(name) / part for part in ("program", "map", "words"))
        words[words.index("-o") + 1] = str(again)
        said.write_text("\n".join(words) + "\n", encoding="utf-8")
        done = subprocess.run([os.environ.get("CC", COMPILER), f"@{said}", f"-Wl,-Map={link_map}"], cwd=execution_root,
                              capture_output=True, text=True, check=False, timeout=LINK_S)
        if done.returncode != 0:
            raise Failed(f"{target} cannot be linked again: {done.stderr.strip()[-500:]}")
        if not filecmp.cmp(again, program, shallow=False):
            raise Failed(f"{program} is not what Bazel's last link of {target} makes: tools/build makes both new")
        return read(link_map.read_text(encoding="utf-8", errors="replace"))


def headers(execution_root, objects):
    """(headers of the system, headers of other repositories) that went into kerf's objects, from the compiler's own lists."""
    system, other = set(), set()
    for path in objects:
        if not path.startswith("bazel-out/"):
            continue
        listed = (execution_root / path).with_suffix(".d")
        if not listed.is_file():
            # nvcc's objects have none; what is compiled in of NVIDIA's headers is of the same wheel as its archive.
            if ".cu." in path or ".cuo" in path or path.endswith(".cu.o"):
                continue
            raise Failed(f"{listed} is missing, so that nobody can tell which headers are in {path}")
        for word in listed.read_text(encoding="utf-8").replace("\\\n", " ").split():
            if word.startswith("/"):
                system.add(word)
            elif word.startswith("external/"):
                other.add(word)
    return system, other
