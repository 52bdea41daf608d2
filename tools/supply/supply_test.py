#!/usr/bin/env python3
"""The documents of what kerf is made of: from maps, packages and roots that are made here, and of the programs in out/ where
tools/build has left some."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import components
import debian
import images
import link_map
import programs
import spdx
import wheels

ROOT = pathlib.Path(__file__).resolve().parents[2]
MAP = """Archive member included because of file (symbol)

/usr/lib/libtaken.a(one.o)
/usr/lib/libleft.a(unused.o)
                              main.o (f)

Discarded input sections

 .text.f        0x0000000000000000        0x2 /usr/lib/libgone.a(gone.o)

Memory map

.text           0x0000000000001000     0x1000
 .text          0x0000000000001000       0x2b bazel-out/k8-opt/bin/server/_objs/kerfd/main.o
 .text.a_name_that_is_too_long_for_its_column
                0x000000000000102b       0x10 /usr/lib/libtaken.a(one.o)
 .data          0x000000000000103b       0x10 /usr/lib/libtaken.a(two.o)
 .text          0x000000000000104b       0x10 /usr/lib/Scrt1.o
"""
STATUS = """Package: libthing-dev
Status: install ok installed
Architecture: amd64
Source: thing (1.0-1)
Version: 1.0-1+b1
Built-Using: golang-1.19 (= 1.19.8-2), other (= 1:2.0-1)
Description: x
 more words

Package: plain
Architecture: all
Version: 2:3.4-5
"""


def document():
    return spdx.Document("test", "2026-01-01T00:00:00Z")


class LinkMap(unittest.TestCase):
    def test_what_is_placed_is_in_the_program_and_nothing_else(self):
        linked = link_map.read(MAP)
        self.assertEqual(linked.archives, {"/usr/lib/libtaken.a": 2})
        self.assertEqual(linked.objects, {"bazel-out/k8-opt/bin/server/_objs/kerfd/main.o", "/usr/lib/Scrt1.o"})

    def test_a_map_of_ld_bfd_says_the_same(self):
        other = MAP.replace("\nMemory map\n", "\nMemory Configuration\n\nLinker script and memory map\n")
        self.assertEqual(link_map.read(other), link_map.read(MAP))

    def test_an_archive_of_our_own_is_its_objects(self):
        other = MAP.replace("bazel-out/k8-opt/bin/server/_objs/kerfd/main.o", "bazel-out/k8-opt/bin/server/libkerfd.a(main.o)")
        self.assertEqual(link_map.read(other), link_map.read(MAP))

    def test_a_map_of_another_linker_is_refused(self):
        with self.assertRaises(link_map.Failed):
            link_map.read("             VMA              LMA     Size Align Out     In      Symbol\n")

    def test_an_object_without_a_list_of_headers_is_an_error(self):
        with tempfile.TemporaryDirectory() as name:
            root = pathlib.Path(name)
            (root / "bazel-out").mkdir()
            (root / "bazel-out/a.d").write_text("bazel-out/a.o: a.cc \\\n /usr/include/x.h external/y/z.h\n")
            self.assertEqual(link_map.headers(root, {"bazel-out/a.o", "/usr/lib/crt1.o"}), ({"/usr/include/x.h"}, {"external/y/z.h"}))
            with self.assertRaises(link_map.Failed):
                link_map.headers(root, {"bazel-out/b.o"})


class Debian(unittest.TestCase):
    def test_a_status_is_read_with_source_and_what_is_linked_in(self):
        one, two = debian.parse_status(STATUS)
        self.assertEqual((one.name, one.version, one.source, one.source_version), ("libthing-dev", "1.0-1+b1", "thing", "1.0-1"))
        self.assertEqual(one.built_using, (("golang-1.19", "1.19.8-2"), ("other", "1:2.0-1")))
        self.assertEqual((two.source, two.source_version, two.built_using), ("plain", "2:3.4-5", ()))

    def test_the_order_of_versions_is_that_of_dpkg(self):
        for low, high in (("1.0~rc1", "1.0"), ("1.9", "1.10"), ("9", "1:1"), ("1.0-1", "1.0-1+deb12u1"), ("3.0.9-1", "3.0.19-1~deb12u2"),
                          ("5:7.0.15-1~deb12u1", "5:7.0.15-1")):
            self.assertTrue(debian.is_older(low, high), (low, high))
            self.assertFalse(debian.is_older(high, low), (low, high))
        self.assertFalse(debian.is_older("1.0", "1.0"))
        with self.assertRaises(debian.Failed):
            debian.is_older("no version", "1")

    def test_owners_are_found_under_both_names_of_a_folder(self):
        self.assertEqual(debian.owners({"/bin/cat", "/usr/bin/cat", "/nowhere"}), {"/bin/cat": "coreutils", "/usr/bin/cat": "coreutils"})

    def test_licences_are_those_of_spdx_or_named_as_unknown(self):
        text = "Format: x\n\nLicense: Expat\n words\n\nLicense: GPL-2+ or odd one\n"
        self.assertEqual(debian.licence(text), ("GPL-2.0-or-later AND MIT AND LicenseRef-Debian-odd-one", ("odd-one",)))
        self.assertEqual(debian.licence("This package was debianized by"), (None, ()))


class Document(unittest.TestCase):
    def test_the_same_parts_are_the_same_bytes_in_any_order(self):
        texts = []
        for order in ((0, 1), (1, 0)):
            one = document()
            packages = debian.parse_status(STATUS)
            for index in order:
                one.relate(spdx.DOCUMENT, "DESCRIBES", components.add_debian(one, packages[index], (None, ())))
            texts.append(one.render())
        self.assertEqual(*texts)

    def test_another_content_has_another_name(self):
        names = set()
        for data in (b"a", b"b"):
            one = document()
            one.file("./a", data, components.add_kerf(one, "a", "1", "APPLICATION"))
            names.add(json.loads(one.render())["documentNamespace"])
        self.assertEqual(len(names), 2)

    def test_names_with_odd_letters_stay_different(self):
        self.assertNotEqual(spdx.identifier("X", "a+b"), spdx.identifier("X", "a-b"))

    def test_the_date_is_not_today(self):
        os.environ["SOURCE_DATE_EPOCH"] = "86400"
        try:
            self.assertEqual(spdx.created(ROOT), "1970-01-02T00:00:00Z")
        finally:
            del os.environ["SOURCE_DATE_EPOCH"]

    def test_package_urls_escape_what_they_must(self):
        self.assertEqual(spdx.package_url("deb", "debian", "libgrpc++-dev", version="1:1.0+b1", arch="amd64"),
                         "pkg:deb/debian/libgrpc%2B%2B-dev@1%3A1.0%2Bb1?arch=amd64")


class Image(unittest.TestCase):
    def root(self, folder):
        """Of a wheel, with what Python made of it, and a Debian package."""
        root = pathlib.Path(folder)
        metadata = "Name: W_x\nVersion: 1\nLicense-Expression: MIT AND LicenseRef-Own\n\n"
        for path, text in (("usr/lib/py/w-1.dist-info/METADATA", metadata), ("usr/lib/py/w-1.dist-info/RECORD", "w.py,,\n"),
                           ("usr/lib/py/w.py", ""), ("usr/lib/py/__pycache__/w.cpython-311.pyc", "x"),
                           ("var/lib/dpkg/status.d/coreutils", "Package: coreutils\nArchitecture: amd64\nVersion: 9.1-1\n"),
                           ("usr/share/doc/coreutils/copyright", "x"), ("bin/cat", "x"), ("etc/passwd", "x")):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        return root

    def describe(self, root):
        return json.loads(images.describe("test", root, "", lambda name: "", "0.1", "2026-01-01T00:00:00Z"))

    def test_each_file_has_its_package(self):
        with tempfile.TemporaryDirectory() as folder:
            told = self.describe(self.root(folder))
        owner = {relation["relatedSpdxElement"]: relation["spdxElementId"] for relation in told["relationships"]
                 if relation["relationshipType"] == "CONTAINS"}
        names = {entry["SPDXID"]: entry["name"] for entry in told["packages"]}
        found = {entry["fileName"]: names[owner[entry["SPDXID"]]] for entry in told["files"]}
        self.assertEqual(found["./usr/lib/py/__pycache__/w.cpython-311.pyc"], "w-x")
        self.assertEqual(found["./bin/cat"], "coreutils")
        self.assertEqual(found["./etc/passwd"], "test-image")
        self.assertEqual(len(found), 8)
        self.assertEqual([one["licenseId"] for one in told["hasExtractedLicensingInfos"]], ["LicenseRef-Own"])

    def test_a_file_from_nowhere_is_an_error(self):
        for stray in ("usr/lib/stray.so", "usr/lib/py/stray.py", "bin/true-not-of-coreutils"):
            with tempfile.TemporaryDirectory() as folder, self.assertRaises(images.Failed):
                root = self.root(folder)
                (root / stray).write_text("x")
                self.describe(root)

    def test_a_program_that_the_document_does_not_tell_of_is_an_error(self):
        other = document()
        components.add_kerf(other, "kerfd", "0.1", "APPLICATION", checksums=spdx.digests(b"another"))
        with tempfile.TemporaryDirectory() as folder, self.assertRaises(images.Failed):
            root = self.root(folder)
            (root / "usr/bin").mkdir(parents=True)
            (root / "usr/bin/kerfd").write_text("x")
            images.describe("test", root, "/usr/bin/kerfd out/kerfd\n", lambda name: other.render(), "0.1", "2026-01-01T00:00:00Z")


class Wheels(unittest.TestCase):
    def test_names_are_those_of_the_index(self):
        with tempfile.TemporaryDirectory() as folder:
            info = pathlib.Path(folder) / "Zope.Event-6.dist-info"
            info.mkdir()
            (info / "METADATA").write_text("Name: Zope.Event_x\nVersion: 6\n\n")
            (info / "RECORD").write_text('a.py,sha256=x,1\n"b,c.py",,\n')
            (wheel,) = wheels.find(folder)
        self.assertEqual((wheel.name, wheel.files), ("zope-event-x", {"a.py", "b,c.py"}))


@unittest.skipUnless((ROOT / "out/kerfd.spdx.json").is_file() and (ROOT / "bazel-bin").exists(), "tools/build has left none")
class Released(unittest.TestCase):
    """By another witness than the map: names of the libraries' functions in the program itself."""

    SYMBOLS = {"kerfd": {"libgrpc.a": "grpc_server_create", "libgrpc++.a": "grpc::ServerBuilder::", "libssl.a": "SSL_CTX_new", "libre2.a": "re2::RE2::",
                         "libcrypto.a": "EVP_DigestInit_ex", "libnghttp2.a": "nghttp2_session_mem_recv", "libhiredis.a": "redisReaderFeed",
                         "libprotobuf.a": "google::protobuf::Message::", "libcares.a": "ares_init_options", "libz.a": "inflateInit2_",
                         "libabsl_strings.a": "absl::", "libevent_core.a": "event_base_new", "libzstd.a": "ZSTD_compressCCtx"},
               "kerf": {"libgrpc.a": "grpc_channel_create", "libzstd.a": "ZSTD_compressCCtx", "libhiredis.a": "redisReaderFeed"}}

    def test_what_the_programs_have_is_told_and_what_they_have_not_is_not(self):
        for name, symbols in self.SYMBOLS.items():
            told = json.loads((ROOT / "out" / f"{name}.spdx.json").read_text(encoding="utf-8"))
            linked = " ".join(relation.get("comment", "") for relation in told["relationships"] if relation["relationshipType"] == "STATIC_LINK")
            symbols_here = subprocess.run(["nm", "--demangle", "--defined-only", ROOT / "out" / name], capture_output=True, text=True, check=True,
                                          timeout=120).stdout
            for archive, symbol in symbols.items():
                self.assertEqual(symbol in symbols_here, f" {archive} (" in linked, f"{name}: {symbol} of {archive}")

    def test_minizip_is_not_in_it(self):
        text = (ROOT / "out/kerfd").read_bytes()
        self.assertNotIn(b"unzOpen", text)
        self.assertNotIn(b"zipOpen", text)

    def test_another_program_than_the_linked_one_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            other = pathlib.Path(folder) / "kerfd"
            other.write_bytes((ROOT / "out/kerfd").read_bytes() + b"\0")
            with self.assertRaisesRegex(link_map.Failed, "is not what Bazel's last link"):
                link_map.relink((ROOT / "bazel-bin").resolve().parents[2], programs.TARGETS["kerfd"], other)


if __name__ == "__main__":
    sys.exit(unittest.main())
