"""libkerf, as Debian has libraries: libkerf0 is what programs load, libkerf-dev what they are made with.

The file has the name that programs ask for (SONAME): a later library of that name takes its place at once.
"""

import pathlib
import sys

import deb
import man

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = ROOT / "client/c"
# As tools/build leaves it in out/.
SONAME = "libkerf.so.0"
RUNTIME, DEVELOPMENT = "libkerf0", "libkerf-dev"
_NAME, _, _SO_VERSION = SONAME.partition(".so.")
_ASK = "import ctypes, sys; ask = ctypes.CDLL(sys.argv[1]).kerf_version; ask.restype = ctypes.c_char_p; print(ask().decode())"


def version_of(path):
    """What it says of itself."""
    return deb.run(sys.executable, "-c", _ASK, path).strip()


def folder():
    """Of shared libraries, below the root."""
    return f"usr/lib/{deb.run('dpkg-architecture', '-qDEB_HOST_MULTIARCH').strip()}"


def pkg_config(root):
    """What pkg-config has to find in its environment where libkerf-dev is installed below `root`."""
    return {"PKG_CONFIG_PATH": str(root / folder() / "pkgconfig"), "PKG_CONFIG_SYSROOT_DIR": str(root),
            "PKG_CONFIG_ALLOW_SYSTEM_CFLAGS": "1", "PKG_CONFIG_ALLOW_SYSTEM_LIBS": "1"}


def control(name, package_version):
    """{file: text} of what dpkg is told beside the fields: which package a program needs that is linked with the library, and
    that the loader's list changes (deb-shlibs(5), deb-triggers(5))."""
    if name != RUNTIME:
        return {}
    return {"shlibs": f"{_NAME} {_SO_VERSION} {RUNTIME} (>= {package_version})\n", "triggers": "activate-noawait ldconfig\n"}


def _put(root, place, content):
    path = root / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _put_runtime(root, programs):
    _put(root, f"{folder()}/{SONAME}", (programs / SONAME).read_bytes())
    _put(root, f"usr/share/doc/{RUNTIME}/{SONAME}.spdx.json", (programs / f"{SONAME}.spdx.json").read_bytes())


def _put_development(root, version, date):
    """What a compiler wants, and its reader."""
    header = (SOURCES / "kerf.h").read_text(encoding="utf-8")
    _put(root, "usr/include/kerf.h", header.encode())
    described = (SOURCES / "library/kerf.pc.in").read_text(encoding="utf-8")
    described = described.replace("@LIBDIR@", folder().removeprefix("usr/")).replace("@VERSION@", version)
    _put(root, f"{folder()}/pkgconfig/kerf.pc", described.encode())
    (root / folder() / f"{_NAME}.so").symlink_to(SONAME)
    _put(root, f"usr/share/doc/{DEVELOPMENT}/examples/upload_twice.c", (SOURCES / "example/upload_twice.c").read_bytes())
    _put(root, f"usr/share/man/man3/{_NAME}.3.gz", man.compressed(man.header_page(_NAME, header, date, version)))


def put(root, name, programs, version, date):
    """The files of the package `name` below `root`; `programs` is the folder of the library and its document."""
    if name == RUNTIME:
        _put_runtime(root, programs)
    else:
        _put_development(root, version, date)
