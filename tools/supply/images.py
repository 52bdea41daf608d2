"""What is in the root file system of an image: each file, whose it is, and what is linked into it."""

import json
import pathlib

import components
import debian
import programs
import spdx
import wheels

# Where the document lies in the image itself; it cannot name its own sum.
PLACE = pathlib.PurePath("usr/share/doc/kerf/sbom.spdx.json")
STATUS = pathlib.PurePath("var/lib/dpkg/status.d")


class Failed(Exception):
    """What a person is told."""


def _source_of(path):
    """Of what Python has compiled, the source."""
    if path.parent.name == "__pycache__":
        return path.parent.parent / (path.name.split(".")[0] + ".py")
    return path


def _wheel_owners(root):
    """(path in the image -> wheel)"""
    owners = {}
    for info in root.glob("**/*.dist-info"):
        wheel = wheels.read(info)
        for name in wheel.files:
            owners[(info.parent.relative_to(root) / name).as_posix()] = wheel
        for path in info.rglob("*"):
            owners[path.relative_to(root).as_posix()] = wheel
    return owners


def _is_kerfs(path, kerf_paths):
    return any(path == one or one.endswith("/") and path.startswith(one) for one in kerf_paths)


def _kerf_paths(contents):
    """What the image has of kerf: from the file of deploy/image/contents, and what each root has."""
    found = {"etc/passwd", "etc/group", "etc/nsswitch.conf", "usr/share/doc/kerf/", "usr/lib/kerf/", STATUS.as_posix() + "/"}
    for line in contents.splitlines():
        path, _, origin = line.partition(" ")
        if origin.startswith("out/") and "/tools/" not in origin:
            found.add(path.lstrip("/"))
    return found


def describe(image, root, contents, program_documents, version, date):
    """The document of the root of `image`. `program_documents`: name of a program -> its own document."""
    document = spdx.Document(f"{image}-image", date)
    top = components.add_kerf(document, f"{image}-image", version, "CONTAINER")
    document.relate(spdx.DOCUMENT, "DESCRIBES", top)
    references = {}
    for status in sorted((root / STATUS).iterdir()):
        for package in debian.parse_status(status.read_text(encoding="utf-8")):
            text = (root / "usr/share/doc" / package.name / "copyright").read_text(encoding="utf-8", errors="replace")
            references[package.name] = components.add_debian(document, package, debian.licence(text))
            document.relate(top, "CONTAINS", references[package.name])
    wheel_of = _wheel_owners(root)
    files = sorted(path for path in root.rglob("*") if path.is_file() and not path.is_symlink() and path.relative_to(root) != PLACE)
    names = {path: _source_of(path.relative_to(root)).as_posix() for path in files}
    kerfs = _kerf_paths(contents)
    asked = {f"/{name}" for name in names.values() if name not in wheel_of and not _is_kerfs(name, kerfs)}
    debian_of = debian.owners(asked)
    for path in files:
        place, name = f"./{path.relative_to(root).as_posix()}", names[path]
        data = path.read_bytes()
        if _is_kerfs(name, kerfs):
            owner = _add_program(document, top, path, data, program_documents) or top
        elif name in wheel_of:
            owner = components.add_wheel(document, wheel_of[name])
            document.relate(top, "CONTAINS", owner)
        else:
            owner = references.get(_copyright_owner(name) or debian_of.get(f"/{name}"))
        if owner is None:
            raise Failed(f"{image}: {place} is of no package that the image notes, and not kerf's")
        document.file(place, data, owner)
    return document.render()


def _copyright_owner(name):
    parts = pathlib.PurePath(name).parts
    return parts[3] if parts[:3] == ("usr", "share", "doc") and len(parts) == 5 else None


def _add_program(document, top, path, data, program_documents):
    """The package of a program of kerf, with all that is linked into it; None of what is no program."""
    if path.name not in programs.TARGETS:
        return None
    text = program_documents(path.name)
    other = json.loads(text)
    reference = spdx.identifier("Package-kerf", path.name)
    own = next(entry for entry in other["packages"] if entry["SPDXID"] == reference)
    if own["checksums"] != spdx.digests(data):
        raise Failed(f"{path} is not the {path.name} that {path.name}.spdx.json tells of: tools/build makes both new")
    document.merge(other)
    document.relate(top, "CONTAINS", reference)
    return reference
