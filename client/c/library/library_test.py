#!/usr/bin/env python3
"""libkerf.so.0 as programs meet that are not built here: what it offers and needs; a program in C that pkg-config tells how it is
made, and one that has protobuf, and kerf's messages, of its own, each at a kerfd; and a program that loads it and lets it go.

usage: library_test.py [FOLDER WITH libkerf.so.0 AND kerfd]   (out, as tools/build and tools/build libkerf leave them)
"""

import contextlib
import os
import pathlib
import re
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tools/python"), str(ROOT / "tools/packaging")]

import library
import package
import processes

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else ROOT / "out"
SHARED = PROGRAMS / library.SONAME
# The first release that had it: what each function of it has for ever behind its name.
FIRST_VERSION = "KERF_0.2"
START_S = 30
COMPILE_S = 300
C_FLAGS = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic")
# What a program may have of kerf's messages that is no program of kerf.
PROTOS = {"base/rpc": ("google/rpc/status.proto", "google/rpc/error_details.proto"),
          "proto": ("kerf/v1/chunking.proto", "kerf/v1/index.proto", "kerf/v1/repository.proto", "kerf/v1/routing.proto")}
FILE_BYTES = 3_000_000
# Debian's, which are part of every system with programs in C++; gRPC is within.
NEEDED = {"libprotobuf", "libabsl", "libre2", "libcares", "libz", "libssl", "libcrypto", "libxxhash", "libstdc++", "libgcc_s", "libm",
          "libc", "ld-linux-x86-64", "ld-linux-aarch64"}


def run(*words, **options):
    return processes.run([str(word) for word in words], **options).stdout


def functions_of_header():
    text = (ROOT / "client/c/kerf.h").read_text(encoding="utf-8")
    return set(re.findall(r"^KERF_API [^;]*?\b(kerf_\w+)\(", text, re.M))


class Installed:
    """The files of both packages below a folder, and programs that are made with them."""

    def __init__(self, folder):
        self.folder, self.root = folder, folder / "root"
        for name in (library.RUNTIME, library.DEVELOPMENT):
            library.put(self.root, name, PROGRAMS, package.version(), "2026-01-01")
        self.libraries = self.root / library.folder()

    def flags(self, kind):
        """What pkg-config says."""
        return run("env", *[f"{name}={value}" for name, value in library.pkg_config(self.root).items()], "pkg-config", kind, "kerf").split()

    def compiled(self, name, *words, compiler="cc"):
        """The program."""
        program = self.folder / name
        run(compiler, *self.flags("--cflags"), *words, "-o", program, *self.flags("--libs"), timeout_s=COMPILE_S)
        return program

    def ran(self, program, *words):
        """What it prints."""
        return run("env", f"LD_LIBRARY_PATH={self.libraries}", program, *words)


@contextlib.contextmanager
def kerfd(folder):
    """The address of one that keeps what it has in `folder`."""
    folder.mkdir()
    ready = folder / "ready"
    words = [PROGRAMS / "kerfd", "--listen", "127.0.0.1:0", "--data-dir", folder / "index", "--ready-file", ready, "--gpu", "off"]
    with processes.running([str(word) for word in words], folder / "kerfd.log") as server:
        processes.wait_until(ready.exists, START_S, "kerfd's start", processes=[server])
        yield ready.read_text(encoding="utf-8").split()[0]


class LibraryTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="kerf-library-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def installed(self):
        return Installed(self.folder)

    def file(self):
        path = self.folder / "file"
        path.write_bytes(os.urandom(FILE_BYTES))
        return path

    def check_uploaded_twice(self, said):
        self.assertRegex(said, rf"^{FILE_BYTES} bytes in \d+ chunks, {FILE_BYTES} new\n{FILE_BYTES} bytes in \d+ chunks, 0 new\n")

    def test_it_offers_the_functions_of_the_header_with_a_version_and_nothing_else(self):
        offered = [line.split()[-1] for line in run("nm", "--dynamic", "--defined-only", SHARED).splitlines()]
        self.assertEqual(sorted(offered), sorted([FIRST_VERSION, *[f"{name}@@{FIRST_VERSION}" for name in functions_of_header()]]))

    def test_it_is_what_a_loader_wants_of_a_shared_library(self):
        said = run("readelf", "--dynamic", "--wide", SHARED)
        self.assertEqual(re.findall(r"\(SONAME\).*\[(.*)\]", said), [library.SONAME])
        needed = {re.match(r"[^.]*?(?=[-_.]|$)", name)[0] if name.startswith("libabsl") else name.partition(".so")[0]
                  for name in re.findall(r"\(NEEDED\).*\[(.*)\]", said)}
        self.assertLessEqual(needed, NEEDED)
        # Code that the loader would have to change; folders of this machine; and what is unloaded while gRPC's threads run.
        self.assertNotRegex(said, r"TEXTREL|RPATH|RUNPATH")
        self.assertRegex(said, r"FLAGS_1.*NODELETE")

    def test_a_program_in_c(self):
        installed = self.installed()
        example = installed.root / f"usr/share/doc/{library.DEVELOPMENT}/examples/upload_twice.c"
        program = installed.compiled("upload_twice", *C_FLAGS, example)
        # It needs the name that stays, and of what is behind that nothing.
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "--dynamic", "--wide", program))
        self.assertEqual(sorted(needed), ["libc.so.6", library.SONAME])
        with kerfd(self.folder / "kerfd") as address:
            self.check_uploaded_twice(installed.ran(program, address, self.file()))

    def test_a_program_that_has_protobuf_and_the_same_messages_of_its_own(self):
        installed = self.installed()
        made = self.folder / "protos"
        made.mkdir()
        for folder, names in PROTOS.items():
            run("protoc", f"-I{ROOT / folder}", f"--cpp_out={made}", *names)
        objects = []
        example = ROOT / "client/c/example/upload_twice.c"
        for source in (example, HERE / "own_protobuf.cc", *sorted(made.rglob("*.pb.cc"))):
            objects.append(self.folder / f"{source.stem}.o")
            words = ("cc", *C_FLAGS, "-Dmain=example_main") if source == example else ("c++", "-std=c++20", "-O0", f"-I{made}")
            run(*words, *installed.flags("--cflags"), "-c", source, "-o", objects[-1], timeout_s=COMPILE_S)
        # Debian's shared library, which is then one for both; its archive within the program, which gives the library what it has
        # of protobuf; and that archive where nobody sees it.
        within = ["-Wl,-Bstatic", "-lprotobuf", "-Wl,-Bdynamic", "-lz"]
        for name, libraries in {"shared": ["-lprotobuf"], "within": within, "unseen": ["-Wl,--exclude-libs,ALL", *within]}.items():
            with self.subTest(name):
                program = installed.compiled(name, *objects, *libraries, "-pthread", compiler="c++")
                with kerfd(self.folder / f"kerfd-{name}") as address:
                    said = installed.ran(program, address, self.file())
                self.check_uploaded_twice(said)
                self.assertIn("\nrefused: DIGEST_ALGORITHM_MISMATCH\n", said)

    def test_a_program_that_loads_it_and_lets_it_go(self):
        program = self.folder / "loads"
        run("cc", *C_FLAGS, *self.installed().flags("--cflags"), HERE / "loads.c", "-o", program)
        self.assertEqual(run(program, SHARED), f"{package.version()}\n")


if __name__ == "__main__":
    unittest.main()
