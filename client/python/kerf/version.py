"""The version of the package, which is kerf's (base/version.h; client/python/build holds the two equal)."""

VERSION = "0.1.0"
