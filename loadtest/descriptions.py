#!/usr/bin/env python3
"""The description of kerf.v1's messages (a FileDescriptorSet), as protoc makes it of proto/.

usage: descriptions.py >FILE   an image has it as kerf.binpb beside this file, and no protoc
"""

import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
# kerf's, and what it uses of google.rpc.
PROTOS = [HERE.parent / "proto", HERE.parent / "base/rpc"]
FILES = ["kerf/v1/chunking.proto", "kerf/v1/index.proto", "kerf/v1/routing.proto", "google/rpc/status.proto",
         "google/rpc/error_details.proto"]
OF_IMAGE = HERE / "kerf.binpb"


def describe():
    if OF_IMAGE.exists():
        return OF_IMAGE.read_bytes()
    protoc = shutil.which("protoc")
    if protoc is None:
        sys.exit("loadtest: no protoc; run tools/deps build")
    return subprocess.run(
        [protoc, *(f"-I{folder}" for folder in PROTOS), "--include_imports", "--descriptor_set_out=/dev/stdout", *FILES],
        stdout=subprocess.PIPE, check=True).stdout


if __name__ == "__main__":
    sys.stdout.buffer.write(describe())
