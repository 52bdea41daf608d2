"""tools/ci/versions.py finds each place that names another version than base/version.h, and a CHANGELOG.md that does."""

import pathlib
import tempfile
import unittest

import versions

RIGHT = {"base/version.h": 'kVersion = "1.3.0-dev";\n', "client/go/doc.go": 'const Version = "1.3.0-dev"\n',
         "client/python/kerf/version.py": 'VERSION = "1.3.0-dev"\n', "deploy/base.yaml": "image: kerf-redis:1.3.0-dev\n",
         "deploy/some_test.py": "kerf:0.0.1", "e2e/releases/1.2.0.tar.gz": "", "e2e/releases/1.1.0.tar.gz": "",
         "CHANGELOG.md": "## [Unreleased]\n### Fixed\n## [1.2.0] - 2026-02-03\n## [1.1.0] - 2026-01-03\n"}


class VersionsTest(unittest.TestCase):
    def findings(self, **changed):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in (RIGHT | {name.replace("|", "/"): text for name, text in changed.items()}).items():
                if text is not None:
                    (root / name).parent.mkdir(parents=True, exist_ok=True)
                    (root / name).write_text(text)
            return list(versions.findings(root, sorted(root.rglob("*"))))

    def assert_finds(self, words, **changed):
        found = self.findings(**changed)
        self.assertEqual(len(found), 1, found)
        self.assertIn(words, found[0])

    def test_all_is_well(self):
        self.assertEqual(self.findings(), [])

    def test_a_release_is_the_newest_of_the_changelog(self):
        released = {"base|version.h": 'kVersion = "1.3.0"', "client|go|doc.go": 'const Version = "1.3.0"',
                    "client|python|kerf|version.py": 'VERSION = "1.3.0"', "deploy|base.yaml": "kerf:1.3.0",
                    "CHANGELOG.md": "## [1.3.0] - 2026-03-03\n## [1.2.0] - 2026-02-03\n"}
        self.assertEqual(self.findings(**released), [])
        self.assert_finds("not the last release", **released | {"CHANGELOG.md": "## [1.2.0] - 2026-02-03\n"})
        found = self.findings(**released | {"CHANGELOG.md": RIGHT["CHANGELOG.md"]})
        self.assertIn("stands at its top exactly", found[0])

    def test_what_names_another_version(self):
        self.assert_finds("client/go/doc.go", **{"client|go|doc.go": 'const Version = "1.2.0"'})
        self.assert_finds("version none", **{"client|python|kerf|version.py": "version = 7"})
        self.assert_finds("an image of kerf 1.2.0", **{"deploy|base.yaml": "image: here/kerf:1.2.0"})

    def test_what_is_no_version(self):
        self.assert_finds("want X.Y.Z", **{"base|version.h": 'kVersion = "1.3"'})
        self.assert_finds("names no version", **{"base|version.h": "nothing"})

    def test_a_changelog_that_is_none(self):
        self.assert_finds("stands at its top exactly", **{"CHANGELOG.md": None})
        self.assert_finds("### News", **{"CHANGELOG.md": RIGHT["CHANGELOG.md"].replace("Fixed", "News")})
        self.assert_finds("want [X.Y.Z]", **{"CHANGELOG.md": "## [Unreleased]\n## 1.2.0\n"})
        self.assert_finds("the newest first", **{
            "CHANGELOG.md": "## [Unreleased]\n## [1.1.0] - 2026-01-03\n## [1.2.0] - 2026-02-03\n"})
        self.assert_finds("not beyond the last release", **{
            "CHANGELOG.md": "## [Unreleased]\n## [1.3.0] - 2026-01-03\n", "e2e|releases|1.3.0.tar.gz": ""})

    def test_a_release_without_records(self):
        self.assert_finds("no record of 1.1.0", **{"e2e|releases|1.1.0.tar.gz": None})


if __name__ == "__main__":
    unittest.main()
