#!/usr/bin/env python3
"""tools/ci/check_protos finds what would break a client of 0.1.0, and what is not named as buf wants it."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
PROTO = HERE.parent.parent / "proto"


def check(edits):
    """(exit status, what is said) of the protos with (file, before, after) of each edit."""
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "proto"
        shutil.copytree(PROTO, copy)
        for file, before, after in edits:
            text = (copy / file).read_text(encoding="utf-8")
            assert before in text, (file, before)
            (copy / file).write_text(text.replace(before, after, 1), encoding="utf-8")
        done = subprocess.run([HERE / "check_protos", copy], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr


class CheckProtos(unittest.TestCase):
    def test_what_is_there_is_well(self):
        code, said = check([])
        self.assertEqual(code, 0, said)

    def test_what_is_added_is_well(self):
        code, said = check([("kerf/v1/chunking.proto", "message GetCapabilitiesRequest {}",
                             "message GetCapabilitiesRequest {\n  string later = 1;\n}")])
        self.assertEqual(code, 0, said)

    def test_what_breaks_is_found(self):
        chunking = "kerf/v1/chunking.proto"
        for edit, said in (
            ((chunking, "string repository = 1;", "string repository = 101;"), 'Previously present field "1"'),
            ((chunking, "string agent = 5;", ""), 'Previously present field "5"'),
            ((chunking, "string agent = 5;", "bytes agent = 5;"), "changed type"),
            ((chunking, "fixed64 check = 5;", "uint64 check = 5;"), "changed type"),
            ((chunking, "VERDICT_NEW = 1;", "VERDICT_FRESH = 1;"), "VERDICT_NEW"),
            ((chunking, "rpc Upload(stream UploadRequest)", "rpc Upload(UploadRequest)"), "client streaming"),
            ((chunking, "uint64 store_epoch = 4;", "uint64 store_epoch = 4 [json_name = \"epoch\"];"), "json_name"),
            ((chunking, "string session_id = 1;", "string sessionId = 1;"), "lower_snake_case"),
            (("kerf/v1/index.proto", "reserved 2;", ""), "reserved"),
            (("kerf/store/v1/store.proto", "uint64 store_epoch = 9;", "uint32 store_epoch = 9;"), "changed type"),
        ):
            with self.subTest(said=said, edit=edit):
                code, found = check([edit])
                self.assertNotEqual(code, 0)
                self.assertIn(said, found)


if __name__ == "__main__":
    sys.exit(unittest.main())
