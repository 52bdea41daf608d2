#!/usr/bin/env python3
"""tools/build, with Bazel replaced, builds what is named and what lies in out/ already."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGETS = {"kerf": "client/agent/kerf", "kerf-lab": "client/lab/kerf-lab", "kerfd": "server/kerfd",
           "libkerf_cuda.so": "kernels/cuda/plugin/libkerf_cuda.so"}
# Built only where it is named, or lies there, and with words of its own.
LIBRARY = "libkerf.so.0"
LIBRARY_WORDS = {"--config=libkerf", "--symlink_prefix=/", f"//client/c:{LIBRARY}"}
# Writes down what it is to build. A query answers whether there is a toolkit.
BAZEL = """#!/bin/bash
if [ "$1" = query ]; then [ -e toolkit ]; exit; fi
if [ "$1" = info ]; then echo "$PWD/bazel-$2"; exit; fi
shift
printf '%s\\n' "$@" >>built
"""
LIMIT_S = 60


class BuildTest(unittest.TestCase):
    def build(self, *names, lying=(), toolkit=True):
        """The exit code, the targets that Bazel was given, and what is new in out/."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)

            def write(name, text):
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
                (root / name).chmod(0o755)

            (root / "tools").mkdir()
            shutil.copy(ROOT / "tools/build", root / "tools/build")
            for command in ("tools/deps", "tools/sbom"):
                write(command, "#!/bin/bash\n")
            write("bin/bazel", BAZEL)
            for target in TARGETS.values():
                write(f"bazel-bin/{target}", "new")
            write(f"bazel---config=libkerf/client/c/{LIBRARY}", "new")
            for name in lying:
                write(f"out/{name}", "old")
            if toolkit:
                write("toolkit", "")
            code = subprocess.run([root / "tools/build", *names], capture_output=True, check=False, timeout=LIMIT_S,
                                  env={**os.environ, "PATH": f"{root}/bin:{os.environ['PATH']}"}).returncode
            built = root / "built"
            return (code, set(built.read_text().split()) if built.exists() else None,
                    {path.name for path in (root / "out").glob("*") if path.read_text() == "new"},
                    {path.name for path in (root / "out").glob("*") if path.read_text() == "old"})

    def expect(self, names, *arguments, **settings):
        labels = {"//" + ":".join(TARGETS[name].rsplit("/", 1)) for name in names if name != LIBRARY}
        if LIBRARY in names:
            labels |= LIBRARY_WORDS
        self.assertEqual(self.build(*arguments, **settings), (0, labels, set(names), set()))

    def test_all_of_them_without_a_name(self):
        self.expect(TARGETS)

    def test_no_plug_in_without_a_toolkit_nor_one_of_another_build(self):
        self.expect(["kerf", "kerf-lab", "kerfd"], lying=["libkerf_cuda.so"], toolkit=False)

    def test_what_is_named(self):
        self.expect(["kerf", "kerfd"], "kerf", "kerfd")
        self.expect(["libkerf_cuda.so", "kerfd"], "kerfd", "libkerf_cuda.so")

    def test_what_lies_there_is_kept_in_step(self):
        self.expect(["kerf", "kerf-lab"], "kerf", lying=["kerf-lab"])
        self.expect(["kerf", "libkerf_cuda.so"], "kerf", lying=["libkerf_cuda.so"])

    def test_the_library_alone_or_with_the_programs(self):
        self.expect([LIBRARY], "libkerf")
        self.expect(["kerfd", LIBRARY], "libkerf", lying=["kerfd"])
        self.expect([*TARGETS, LIBRARY], lying=[LIBRARY])

    def test_a_name_that_is_none_builds_nothing(self):
        self.assertEqual(self.build("kerf", "kerfs", lying=["kerf"]), (2, None, set(), {"kerf"}))


if __name__ == "__main__":
    unittest.main()
