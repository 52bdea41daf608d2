#!/usr/bin/env python3
"""The rules of the house find what breaks them: functions of each shape one line too long, and others that are not."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

import cpp_functions
import folder_graph
import house_rules


def lengths(text):
    return {name: lines for name, _, lines in cpp_functions.functions(text)}


def body(lines):
    """Of a function that is as many lines long, its first one not counted."""
    return "{\n" + "  Call({1, 2});  // }\n" * (lines - 2) + "}\n"


# Who may call what is no method of kerf's own.
ACCESS = "| method | nobody |\n| /grpc.health.v1.Health/Check | yes |\n| /grpc.health.v1.Health/Watch | yes |\n"
# With the last cell of its row.
THREATS = "| attack | held by |\n| --- | --- |\n| x | {} |\n"


class CppFunctions(unittest.TestCase):
    def test_each_shape_is_seen(self):
        for head, name in (
            ("void Free(int a) ", "Free"),
            ("static absl::StatusOr<std::vector<int>> Free(std::span<const int> a) noexcept ", "Free"),
            ("int Thing::Method() const ", "Thing::Method"),
            ("Thing::Thing(int a) : a_(a), b_{a}, c_({1}) ", "Thing::Thing"),
            ("Thing::~Thing() ", "Thing::~Thing"),
            ("bool operator==(const Thing& a, const Thing& b) ", "operator=="),
            ("template <typename T, class U = int>\nauto Free(T a) -> decltype(a) ", "Free"),
            ("TEST(Suite, Name) ", "TEST"),
            ("__global__ void Kernel(const unsigned char* data) ", "Kernel"),
            ("constexpr auto kCall = [](int a) ", "kCall"),
            ("const std::function<int(int)> kCall = [&table]<typename T>(T a) -> int ", "kCall"),
            ("static const int kValue = [] ", "kValue"),
        ):
            for before, after in (("", ""), ("namespace kerf {\nnamespace {\n", "}\n}\n"),
                                  ("class Outer : public Base<int> {\n public:\n", "};\n"),
                                  ("struct S {\n  int a = 0;\n  enum class E { kOne, kTwo };\n", "};\n")):
                with self.subTest(head=head, before=before):
                    found = list(cpp_functions.functions(before + head + body(30) + after))
                    self.assertEqual(len(found), 1, found)
                    self.assertEqual(found[0], (name, before.count("\n") + 1, 30 + head.count("\n")))

    def test_functions_behind_each_other_are_all_seen(self):
        text = ("constexpr int kTable[] = {\n  1,\n  2,\n};\n\nclass A {\n  void One() {}\n  void Two() { if (x) { y(); } }\n};\n"
                "const int kFirst = kTable[0] + Of({1});\nint a[2] = {1, 2};\n"
                "const char* kText = R\"x(void No() {\n{{{\n)x\";\nconst char kBrace = '{';\nint n = 1'000'000;\n#define M(x) { x\n"
                "void Three() {\n}\n")
        self.assertEqual(list(lengths(text)), ["One", "Two", "Three"])

    def test_a_lambda_belongs_to_its_function(self):
        self.assertEqual(lengths("void Outer() {\n  Run([&] {\n    Call();\n  });\n}\n"), {"Outer": 5})


class Rules(unittest.TestCase):
    def findings(self, files, subject="Add"):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.com"]
            subprocess.run([*git, "init", "-q"], cwd=root, check=True)
            for name, text in files.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            drawing = root / folder_graph.DRAWING_FILE
            drawing.parent.mkdir(exist_ok=True)
            drawing.write_text(f"{folder_graph.BEGIN}\n{folder_graph.END}\n")
            folder_graph.write_drawing(root, folder_graph.DRAWING_FILE)
            subprocess.run([*git, "add", "-A"], cwd=root, check=True)
            subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", subject], cwd=root, check=True)
            return list(house_rules.findings(root))

    def test_what_is_right_is_not_found(self):
        clock = "auto now = std::chrono::system_clock::now();\n"
        self.assertEqual(self.findings({"server/a_test.cc": clock, "server/testing/a.cc": clock, "client/a.cc": clock,
                                        "server/index/set_aside.cc": clock, "base/a.cc": "void Free() " + body(70), "tools/a.py": "def f():\n" + "    g()\n" * 69,
                                        "base/b.cc": "int a;\n" * 699, "base/b_test.cc": "TEST_F(Suite, Holds) {}\n", "base/BUILD": 'srcs = ["b_test.cc", "b.cc"]\n',
                                        "proto/a.proto": "package p.v1;\nservice Eat {\n  rpc One(A) returns (A);\n}\n",
                                        "docs/spec/access.md": ACCESS + "| /p.v1.Eat/One | no |\n",
                                        "tools/a_test.py": "class SnakeTest(unittest.TestCase):\n    async def test_it(self):\n        pass\n",
                                        "docs/spec/a.md": "| ABC-1 | CON-1, `Suite.Holds` |\n| ABC-2 | as ABC-1, `Suite` |\n**ABC-3.** So: `SnakeTest`, `SnakeTest.test_it`, `TestIt`.\n"
                                        "## Part\n**ABC-4.** A.\n\n**ABC-5.** B.\n\n*ABC-4, ABC-5: `SnakeTest`.*\n| COL-42 | no test |\n",
                                        "client/conformance/cases_a.py": "@case(1, 'eat', 'ABC-1 ABC-2', 'ABC')\ndef eat():\n    pass\n",
                                        "client/a_test.go": "func TestIt(t *testing.T) {\n}\n",
                                        "docs/threat_model.md": "| who |\n| --- |\n| one |\n\n" + THREATS.format(
                                            "`Suite.Holds`, `base/b.cc` |\n| y | **not defended**: later")}, "S" * 72), [])

    def test_what_is_not_is(self):
        for files, said in (
            ({"base/a.cc": "void Free() " + body(71)}, "base/a.cc:1: Free has 71 lines"),
            ({"tools/a.py": "def f():\n" + "    g()\n" * 70}, "tools/a.py:1: f has 71 lines"),
            ({"tools/a": "#!/usr/bin/env python3\ndef f():\n" + "    g()\n" * 70}, "tools/a:2: f has 71 lines"),
            ({"base/a.inc": "void Free() " + body(71)}, "base/a.inc:1: Free has 71 lines"),
            ({"base/a.cc": "const auto kCall = [] " + body(71)[:-1] + ";\n"}, "base/a.cc:1: kCall has 71 lines"),
            ({"base/b.cc": "int a;\n" * 700}, "the wall"),
            ({"base/a.h": "int a;\n"}, "#pragma once"),
            ({"base/a.cc": '#include "server/b.h"\n'}, "later on the data path"),
            ({"server/a.cc": '#include "client/b.h"\n'}, "share only"),
            ({"base/a.cc": "// TO" "DO: later\n"}, "unfinished"),
            ({"server/a.cc": "auto end = std::chrono::system_clock::now() + kWait;\n"}, "clock may be set"),
            ({"server/a.h": "#pragma once\nabsl::Time begin = absl::Now();\n"}, "clock may be set"),
            ({"server/a.cc": "const auto now = time(nullptr);\n"}, "clock may be set"),
            ({"server/a_test.cc": "  if (!status.ok()) EXPECT_EQ(a, b);\n"}, "server/a_test.cc:1: braces"),
            ({"--help/a": ""}, "no name for a file"),
            ({"base/a b": ""}, "no name for a file"),
            ({"x.log": ""}, "by mistake"),
            ({"base/a.o": "\0"}, "binary"),
            ({"base/a.png": "\0"}, "binary"),
            ({"docs/img/a.png": "\0" * 200_000}, "200000 bytes; a picture has at most"),
            ({"docs/threat_model.md": THREATS.format("`--audit`")}, "docs/threat_model.md:3: a row ends in"),
            ({"docs/threat_model.md": THREATS.format("`base/b_test.py`"), "base/b_test.py": "pass\n"},
             "docs/threat_model.md:3: nothing runs base/b_test.py"),
            ({"docs/threat_model.md": THREATS.format("`Suite.Holds`"), "base/b_test.cc": "TEST(Suite, Holds) {}\n", "base/BUILD": ""},
             "docs/threat_model.md:3: there is no test Suite.Holds"),
            ({"docs/spec/access.md": ACCESS, "proto/a.proto": "package p;\nservice Eat {\n  rpc One(A) returns (A);\n}\n"},
             "who may call /p.Eat/One?"),
            ({"docs/spec/access.md": ACCESS + "| /p.Eat/Two | no |\n"}, "there is no method /p.Eat/Two"),
            ({"docs/spec/access.md": ACCESS * 2}, "/grpc.health.v1.Health/Check has two rows"),
            ({"docs/spec/access.md": "| method | nobody |\n"}, "who may call /grpc.health.v1.Health/Watch?"),
            ({"docs/threat_model.md": THREATS.format("`Suite.Gone`")}, "docs/threat_model.md:3: there is no test Suite.Gone"),
            ({"docs/spec/a.md": "| ABC-1 | so | `Suite.Gone` |\n"}, "docs/spec/a.md: there is no test Suite.Gone"),
            ({"docs/spec/a.md": "| ABC-1 | so | `GoneTest` |\n"}, "docs/spec/a.md: there are no tests GoneTest"),
            ({"docs/spec/a.md": "| ABC-1 | so | `SnakeTest.test_it` |\n", "a_test.py": "class SnakeTest(Case):\n    def test_one(self):\n        pass\n"},
             "docs/spec/a.md: there is no test SnakeTest.test_it"),
            ({"docs/spec/a.md": "| ABC-1 | so | `TestGone` |\n", "a_test.go": "func TestGo(t *testing.T) {\n}\n"},
             "docs/spec/a.md: there is no test TestGone"),
            ({"docs/spec/a.md": "| ABC-1 | so |\n**ABC-1.** And so.\n"}, "docs/spec/a.md: ABC-1 is the number of two rules"),
            ({"docs/spec/a.md": "| ABC-1 | nobody |\n"}, "docs/spec/a.md: no test is named at ABC-1, and no case"),
            ({"docs/spec/a.md": "| ABC-1 | no test |\n", "client/conformance/cases_a.py": "@case(1, 'eat', 'ABC-1')\ndef eat():\n    pass\n"},
             "docs/spec/a.md: ABC-1 says that no test holds it"),
            ({"docs/spec/a.md": "| ABC-1 | CON-2 |\n", "client/conformance/cases_a.py": "@case(1, 'eat', 'ABC-1')\ndef eat():\n    pass\n"},
             "docs/spec/a.md: ABC-1 is not what CON-2 judges"),
            ({"docs/spec/a.md": "## One\n**ABC-1.** So.\n\n*ABC-2: `Suite.Holds`*\n", "base/b_test.cc": "TEST(Suite, Holds) {}\n"},
             "docs/spec/a.md: no test is named at ABC-1, and no case"),
            ({"docs/spec/a.md": "## One\n**ABC-1.** So.\n## Two\n*`Suite.Holds`*\n", "base/b_test.cc": "TEST(Suite, Holds) {}\n"},
             "docs/spec/a.md: no test is named at ABC-1, and no case"),
            ({"docs/spec/a.md": "| ABC-1 | `base/b.cc` |\n"}, "docs/spec/a.md: no test is named at ABC-1, and no case"),
            ({"client/conformance/cases_a.py": "@case(1, 'eat', 'ABC-1 ABC-2')\ndef eat():\n    pass\n"},
             "client/conformance/cases_a.py:1: there is no rule ABC-2"),
            ({"docs/spec/a.md": "| COL-42 | `Suite.Holds` |\n", "base/b_test.cc": "TEST(Suite, Holds) {}\n"}, "COL-42 is held by a test"),
            ({"docs/threat_model.md": THREATS.format("`a/gone.py`")}, "there is no test a/gone.py"),
            ({"docs/threat_model.md": THREATS.format("somebody")}, "docs/threat_model.md:3: a row ends in"),
            ({"docs/threat_model.md": THREATS.format("")}, "docs/threat_model.md:3: a row ends in"),
            ({"docs/upgrade.md": THREATS.format("**not defended**")}, "docs/upgrade.md:3: a row ends in"),
            ({"docs/upgrade.md": THREATS.format("`Suite.Gone`")}, "docs/upgrade.md:3: there is no test Suite.Gone"),
            ({"server/a/a.cc": '#include "server/b/b.h"\n', "server/a/a.h": "#pragma once\n",
              "server/b/b.h": '#pragma once\n#include "server/a/a.h"\n'}, "circle"),
        ):
            with self.subTest(said=said):
                found = self.findings(files)
                self.assertTrue(any(said in finding for finding in found), found)

    def test_a_long_subject_is_found(self):
        self.assertIn("a subject of 73 characters", self.findings({}, "S" * 73)[0])


if __name__ == "__main__":
    sys.exit(unittest.main())
