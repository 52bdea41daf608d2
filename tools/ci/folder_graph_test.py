#!/usr/bin/env python3
"""Plants circles and old drawings: tools/ci/folder_graph_test.py"""

import pathlib
import subprocess
import tempfile
import unittest

import folder_graph

LIBRARY = 'kerf_cc_library(name = "{}", hdrs = ["{}.h"], deps = [{}])\n'


class FolderGraphTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        subprocess.run(["git", "init", "-q"], cwd=self.root, check=True)
        self.write("docs/architecture.md",
                   f"text\n{folder_graph.BEGIN}\n{folder_graph.END}\nmore text\n")

    def write(self, name, text=""):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def include(self, name, *included):
        self.write(name, "".join(f'#include "{header}"\n' for header in included))

    def circles(self):
        tree = folder_graph.Tree(self.root)
        return [*folder_graph.circle_findings(folder_graph.include_arrows(tree)),
                *folder_graph.circle_findings(folder_graph.dependency_arrows(tree))]

    def draw(self):
        folder_graph.write_drawing(self.root, folder_graph.DRAWING_FILE)

    def test_without_a_circle_nothing_is_found(self):
        self.include("server/edge/a.cc", "server/worker/b.h", "server/net/c.h", "absl/status/status.h")
        self.include("server/worker/b.h", "server/net/c.h")
        self.include("server/net/c.h")
        self.assertEqual(self.circles(), [])

    def test_two_folders_are_a_circle(self):
        self.include("server/edge/a.h", "server/worker/b.h")
        self.include("server/worker/b.h")
        self.include("server/worker/other.cc", "server/edge/a.h")
        self.assertEqual(self.circles(), [
            'server/edge -> server/worker -> server/edge: a circle of folders: '
            'server/edge/a.h includes "server/worker/b.h"; '
            'server/worker/other.cc includes "server/edge/a.h"'])

    def test_a_long_circle_is_told_arrow_by_arrow(self):
        self.include("server/metrics/a.h", "server/edge/b.h")
        self.include("server/edge/b.h", "server/worker/c.h")
        self.include("server/worker/c.h", "server/metrics/d.h")
        self.include("server/metrics/d.h")
        [finding] = self.circles()
        self.assertIn("server/edge -> server/worker -> server/metrics -> server/edge", finding)
        self.assertIn('server/metrics/a.h includes "server/edge/b.h"', finding)

    def test_two_circles_are_told_both(self):
        for one, other in ("ab", "cd"):
            self.include(f"server/{one}/x.h", f"server/{other}/y.h")
            self.include(f"server/{other}/y.h", f"server/{one}/x.h")
        self.assertEqual(len(self.circles()), 2)

    def test_a_cuda_source_is_a_source(self):
        self.include("kernels/cuda/kernel/a.cu", "kernels/cuda/launch/b.cuh")
        self.include("kernels/cuda/kernel/c.h")
        self.include("kernels/cuda/launch/b.cuh", "kernels/cuda/kernel/c.h")
        self.assertEqual(len(self.circles()), 1)

    def test_tests_make_no_circles(self):
        self.include("server/edge/a.h", "server/net/b.h")
        self.include("server/net/b.h")
        self.include("server/net/b_test.cc", "server/edge/a.h")
        self.include("server/net/testing/c.h", "server/edge/a.h")
        self.include("server/net/only.h", "server/edge/a.h")
        self.write("server/net/BUILD",
                   'kerf_cc_library(name = "only", testonly = True, hdrs = ["only.h"],'
                   ' deps = ["//server/edge:a"])\n'
                   'kerf_cc_test(name = "b_test", srcs = ["b_test.cc"], deps = ["//server/edge:a"])\n')
        self.write("server/edge/BUILD", LIBRARY.format("a", "a", '"//server/net:b"'))
        self.assertEqual(self.circles(), [])

    def test_a_whole_package_may_be_for_tests(self):
        self.include("server/edge/a.h", "server/worlds/b.h")
        self.include("server/worlds/b.h", "server/edge/a.h")
        self.write("server/worlds/BUILD",
                   "package(default_testonly = True)\n" + LIBRARY.format("b", "b", '"//server/edge:a"'))
        self.assertEqual(self.circles(), [])

    def test_what_a_library_has_is_no_test_whatever_its_name(self):
        self.include("server/edge/a.h", "server/net/testing/c.h")
        self.include("server/net/testing/c.h", "server/edge/a.h")
        self.write("server/net/testing/BUILD", LIBRARY.format("c", "c", ""))
        self.assertEqual(len(self.circles()), 1)

    def test_dependencies_are_arrows(self):
        self.include("server/edge/a.h")
        self.include("server/net/b.h")
        self.write("server/edge/BUILD", LIBRARY.format("a", "a", '"//server/net"'))
        self.write("server/net/BUILD", LIBRARY.format("net", "b", '"//server/edge:a", "@absl"'))
        self.assertEqual(self.circles(), [
            "server/edge -> server/net -> server/edge: a circle of folders: "
            "//server/edge:a depends on //server/net; //server/net:net depends on //server/edge:a"])

    def test_dependencies_are_found_in_comprehensions_and_selections(self):
        self.include("server/edge/a.h")
        self.include("server/net/b.h")
        self.write("server/edge/BUILD",
                   '[kerf_cc_library(name = name, hdrs = ["a.h"], deps = select({\n'
                   '    "//c": ["//server/net:b"], "d": []}) + []) for name in ["a"]]\n')
        self.write("server/net/BUILD", LIBRARY.format("b", "b", '"//server/edge:a"'))
        self.assertEqual(len(self.circles()), 1)

    # What its folders are made of, and what is made of them.
    def test_a_folder_may_stand_below_and_above_those_that_it_holds(self):
        self.include("kernels/profile.h")
        self.include("kernels/registry.cc", "kernels/registry.h", "kernels/vector/v.h")
        self.include("kernels/registry.h", "kernels/profile.h")
        self.include("kernels/vector/v.h", "kernels/profile.h")
        self.write("kernels/BUILD", LIBRARY.format("profile", "profile", "") +
                   LIBRARY.format("registry", "registry", '":profile", "//kernels/vector:v"'))
        self.write("kernels/vector/BUILD", LIBRARY.format("v", "v", '"//kernels:profile"'))
        self.assertEqual(self.circles(), [])
        self.include("kernels/vector/v.h", "kernels/registry.h")
        self.write("kernels/vector/BUILD", LIBRARY.format("v", "v", '"//kernels:registry"'))
        self.assertEqual(len(self.circles()), 2)

    def test_files_of_one_folder_may_need_each_other(self):
        self.include("kernels/profile.cc", "kernels/rules.h")
        self.include("kernels/rules.h", "kernels/profile.h")
        self.include("kernels/profile.h")
        self.include("kernels/vector/v.h", "kernels/profile.h")
        self.assertEqual(self.circles(), [])

    def test_a_drawing_must_be_current(self):
        self.include("server/edge/a.h", "server/net/b.h")
        self.include("server/net/b.h")
        [old] = folder_graph.findings(self.root)
        self.assertIn("the drawing of the folders is old", old)
        self.draw()
        self.assertEqual(folder_graph.findings(self.root), [])
        text = (self.root / "docs/architecture.md").read_text()
        self.assertIn("server_edge --> server_net", text)
        self.assertTrue(text.startswith("text\n") and text.endswith("\nmore text\n"))
        self.include("server/errors/c.h")
        self.include("server/net/b.h", "server/errors/c.h")
        self.assertEqual(len(folder_graph.findings(self.root)), 1)

    def test_a_drawing_needs_a_place(self):
        self.write("docs/architecture.md", "text\n")
        self.include("server/net/b.h")
        self.assertIn("no place for the drawing", folder_graph.findings(self.root)[0])

    def test_what_a_longer_way_says_is_not_drawn(self):
        self.include("server/a/a.h", "server/b/b.h", "server/c/c.h", "kernels/d/d.h", "base/e.h")
        self.include("server/b/b.h", "server/c/c.h")
        self.include("server/c/c.h")
        self.include("kernels/d/d.h", "base/e.h")
        self.include("base/e.h")
        drawing = folder_graph.draw(folder_graph.Tree(self.root))
        self.assertIn("server_a --> server_b", drawing)
        self.assertIn("server_b --> server_c", drawing)
        self.assertNotIn("server_a --> server_c", drawing)
        self.assertIn("server ==> kernels", drawing)
        self.assertNotIn("server ==> base", drawing)

    def test_only_two_levels_are_drawn(self):
        self.include("client/agent/store/packs/a.h", "client/cpp/b.h")
        self.include("client/cpp/b.h")
        drawing = folder_graph.draw(folder_graph.Tree(self.root))
        self.assertIn("client_agent --> client_cpp", drawing)
        self.assertNotIn("packs", drawing)


if __name__ == "__main__":
    unittest.main()
