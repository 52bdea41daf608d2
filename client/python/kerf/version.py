"""The version of the package, which is kerf's (base/version.h; tools/ci/versions.py holds the two equal)."""

VERSION = "0.2.0-dev"
