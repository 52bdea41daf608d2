#!/bin/sh
echo "bazel coverage is not supported here: see docs/hacking.md" >&2
exit 1
