"""Images by digest: the Dockerfile, kustomize's way of naming one, and what is not one."""

import pathlib
import sys
import types
import unittest

import digests
import programs

DIGEST = "sha256:" + "0123456789abcdef" * 4
IMAGE = pathlib.Path(__file__).resolve().parent.parent / "image"


def findings(image):
    container = {"name": "c", "image": image, "command": ["/usr/bin/kerfd"]}
    workload = types.SimpleNamespace(name="w", containers=[container])
    facts = types.SimpleNamespace(version="0.1.0", images={"kerf": {"/usr/bin/kerfd"}})
    return list(programs.images(types.SimpleNamespace(workloads=[workload]), facts))


class Digests(unittest.TestCase):
    def test_the_dockerfile_has_them(self):
        self.assertEqual(list(digests.dockerfile((IMAGE / "Dockerfile").read_text(encoding="utf-8"))), [])

    def test_a_tag_alone_is_found(self):
        for text in ("ARG D=debian:12\nFROM ${D} AS a\n", "FROM debian:12\n", f"FROM debian@{DIGEST} AS a\nCOPY --from=busybox:1 / /\n",
                     "FROM debian@sha256:12\n", "FROM --platform=linux/amd64 debian:12 AS a\n"):
            self.assertEqual(len(list(digests.dockerfile(text))), 1, text)
        self.assertEqual(list(digests.dockerfile(f"ARG D=debian:12@{DIGEST}\nFROM ${{D}} AS a\nFROM scratch\nCOPY --from=a / /\n")), [])

    def test_our_own_have_a_digest_or_the_version(self):
        for image in ("localhost/kerf:0.1.0", f"registry.example.com:5000/kerf/kerf@{DIGEST}", f"r/kerf:0.1.0@{DIGEST}",
                      "registry.example.com:5000/kerf:0.1.0"):
            self.assertEqual(findings(image), [], image)
        for image in ("localhost/kerf:latest", "localhost/kerf", "r/kerf@sha256:12", f"r/other@{DIGEST}", f"r/kerf@{DIGEST}0"):
            self.assertEqual(len(findings(image)), 1, image)


if __name__ == "__main__":
    sys.exit(unittest.main())
