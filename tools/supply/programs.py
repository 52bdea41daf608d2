"""What a release program is made of: what is linked into it, what is compiled in from headers, what the loader brings."""

import pathlib
import re
import subprocess

import components
import debian
import link_map
import spdx
import wheels

# In out/, and as what Bazel links it.
TARGETS = {"kerf": "client/agent/kerf", "kerf-lab": "client/lab/kerf-lab", "kerfd": "server/kerfd",
           "libkerf_cuda.so": "kernels/cuda/plugin/libkerf_cuda.so", "libkerf.so.0": "client/c/libkerf.so.0"}
# Where Bazel leaves what is of a configuration of its own.
CONFIGURATIONS = {"libkerf.so.0": "k8-opt-libkerf"}
# Numbers and types of system calls: nothing of the kernel runs in a program that includes them.
DECLARATIONS = {"linux-libc-dev"}
ASK_S = 60
COPYRIGHTS = pathlib.Path("/usr/share/doc")


class Failed(Exception):
    """What a person is told."""


def _wheel_of(path):
    """Of a file that pip has unpacked into a folder with its .dist-info; None if there is no such folder above it."""
    for folder in path.parents:
        for wheel in wheels.find(folder):
            if path.relative_to(folder).as_posix() in wheel.files:
                return wheel
    return None


def _loaded(program):
    """The shared libraries that the loader takes, also for each other."""
    done = subprocess.run(["ldd", program], capture_output=True, text=True, check=False, timeout=ASK_S)
    if done.returncode != 0 or "not found" in done.stdout:
        raise Failed(f"{program} needs a library that is not here: {done.stdout}{done.stderr}")
    return re.findall(r"^\s+(?:\S+ => )?(/\S+) \(", done.stdout, re.M)


def _licence(package):
    return debian.licence((COPYRIGHTS / package.name / "copyright").read_text(encoding="utf-8", errors="replace"))


def _add_debian(document, program, kind, files, note):
    """Relates the program with the packages of the files: {path: how much of it}. All must be of one."""
    owners = debian.owners(files)
    lost = sorted(set(files) - set(owners))
    if lost:
        raise Failed(f"{', '.join(lost)}: from no Debian package, so that nobody can tell what it is")
    for package in debian.packages(set(owners.values())):
        own = sorted(path for path, owner in owners.items() if owner == package.name)
        kind_here = "BUILD_DEPENDENCY_OF" if package.name in DECLARATIONS else kind
        reference = components.add_debian(document, package, _licence(package))
        # Of a build dependency SPDX asks the other way round.
        ends = (reference, program) if package.name in DECLARATIONS else (program, reference)
        document.relate(ends[0], kind_here, ends[1], note(own))


def _names(prefix, files, paths):
    listed = [f"{pathlib.PurePath(path).name}{files[path]}" for path in paths]
    return f"{prefix}: {', '.join(listed)}"


def describe(name, program, execution_root, version, date):
    """The document of out/NAME."""
    linked = link_map.relink(execution_root, TARGETS[name], program, CONFIGURATIONS.get(name, "k8-opt"))
    system_headers, _ = link_map.headers(execution_root, linked.objects)
    document = spdx.Document(name, date)
    root = components.add_kerf(document, name, version, "LIBRARY" if ".so" in name else "APPLICATION",
                               checksums=spdx.digests(program.read_bytes()), packageFileName=name)
    document.relate(spdx.DOCUMENT, "DESCRIBES", root)
    parts = {}
    for path, count in linked.archives.items():
        parts[path] = f" ({count})"
    for path in linked.objects:
        if not path.startswith("bazel-out/"):
            parts[path] = ""
    parts = {str((execution_root / path).resolve()): words for path, words in parts.items()}
    for path in sorted(parts):
        if wheel := _wheel_of(pathlib.Path(path)):
            document.relate(root, "STATIC_LINK", components.add_wheel(document, wheel), _names("linked in", parts, [path]))
            del parts[path]
    _add_debian(document, root, "STATIC_LINK", parts, lambda own: _names("linked in (members)", parts, own))
    _add_debian(document, root, "STATIC_LINK", {path: "" for path in system_headers},
                lambda own: f"compiled in, or declared: {len(own)} headers")
    libraries = {path: "" for path in _loaded(program)}
    _add_debian(document, root, "DYNAMIC_LINK", libraries, lambda own: _names("loaded", libraries, own))
    return document.render()
