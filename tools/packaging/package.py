"""tools/package: leaves in out/packages what an administrator installs.

  kerf_VERSION_ARCH.deb, kerfd_VERSION_ARCH.deb,
  libkerf0_VERSION_ARCH.deb, libkerf-dev_...      Debian packages; deploy/package/README.md says what they do
  kerf-VERSION-linux-ARCH.tar.gz                  the same files below one folder, for other systems with these libraries
  kerf-VERSION-py3-none-any.whl                   the Python client
  IMAGE-VERSION-oci-ARCH.tar, .spdx.json          images as OCI archives, made without a container daemon, and what each is made of:
                                                  kerf (kerfd, with all programs), kerf-agent (kerf) and kerf-redis
  IMAGES                                          their names, digests and files
  SHA256SUMS                                      of all of them

The same programs of the same commit give the same bytes; the date within is that of the commit, or SOURCE_DATE_EPOCH.

exit codes: 0; 1: something is missing or does not fit together; 2: wrong words
"""

import argparse
import gzip
import hashlib
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import textwrap
import time

import deb
import image
import library
import man

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = ROOT / "deploy/package"
DESCRIPTION = """ kerf backs up folders into a store, restores and verifies them; kerfd cuts and
 fingerprints what is sent to it, and says which chunks are new."""
# What each package has of programs, and where else files of this repository go.
PACKAGES = {
    "kerf": {
        "programs": ("kerf", "kerf-lab"),
        "files": {
            "deploy/package/kerf-backup.service": "usr/lib/systemd/system/kerf-backup@.service",
            "deploy/package/kerf-backup.timer": "usr/lib/systemd/system/kerf-backup@.timer",
            "deploy/package/backup.conf": "usr/share/doc/kerf/examples/backup.conf",
        },
        # Loaded for stores that keep parity, so that nothing is linked with it.
        "depends": "libisal2",
        "recommends": "kerfd",
        "description": f"backups that are cut by content, and stored once\n{DESCRIPTION}\n .\n This is the agent, and a timer for backups each night.",
    },
    "kerfd": {
        "programs": ("kerfd",),
        "files": {
            "deploy/package/kerfd.service": "usr/lib/systemd/system/kerfd.service",
            "deploy/package/kerfd.sysusers": "usr/lib/sysusers.d/kerfd.conf",
            "deploy/package/kerfd.toml": "etc/kerf/kerfd.toml",
            "deploy/components/monitoring/kerf.json": "usr/share/doc/kerfd/examples/dashboard.json",
        },
        "depends": "systemd | systemd-standalone-sysusers | systemd-sysusers",
        "recommends": "",
        "description": f"server of kerf, which cuts and deduplicates backups\n{DESCRIPTION}\n .\n This is the server, as a service of systemd.",
    },
}
# Their files are library.py's.
LIBRARIES = {
    library.RUNTIME: {
        "section": "libs",
        "description": f"kerf for programs in C, shared library\n{DESCRIPTION}\n .\n This is what backup programs load that have kerfd cut for them.",
    },
    library.DEVELOPMENT: {
        "section": "libdevel",
        "description": f"kerf for programs in C, header\n{DESCRIPTION}\n .\n This is what backup programs are made with: header, pkg-config, an example.",
    },
}
COMPLETIONS = {"bash": "usr/share/bash-completion/completions/kerf", "zsh": "usr/share/zsh/vendor-completions/_kerf",
               "fish": "usr/share/fish/vendor_completions.d/kerf.fish"}
# In the tarball, what lies in a root elsewhere.
UNUSED_IN_TARBALL = tuple(f"usr/share/doc/{name}/copyright" for name in ("kerfd", *LIBRARIES))
WHEEL_TIMEOUT_S = 300
# What is left of an earlier run, of any version: nothing else of the folder, which may be out/ with its programs, or somebody's.
OURS = (*[f"{name}_*.deb" for name in (*PACKAGES, *LIBRARIES)], "kerf-*-linux-*.tar.gz", "kerf-*-py3-none-any.whl", "kerf*-oci-*.tar",
        "kerf*-oci-*.spdx.json", "SHA256SUMS", image.LIST)


def version():
    found = re.search(r'kVersion = "([^"]+)"', (ROOT / "base/version.h").read_text(encoding="utf-8"))
    if not found:
        raise deb.Failed("base/version.h names no version")
    return found[1]


def epoch_s():
    if said := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(said)
    return int(deb.run("git", "-C", ROOT, "log", "-1", "--format=%ct"))


def libraries(programs):
    """The packages of the library: none where it was not built, which takes minutes more."""
    return tuple(LIBRARIES) if (programs / library.SONAME).is_file() else ()


def check_programs(programs, wanted):
    """They are there, and of this version: out/ may hold those of another day."""
    built = [name for package in PACKAGES.values() for name in package["programs"]]
    for name in (*built, library.SONAME) if libraries(programs) else built:
        is_library = name == library.SONAME
        path, build = programs / name, "tools/build libkerf" if is_library else "tools/build"
        if not path.is_file():
            raise deb.Failed(f"{path} is missing: {build} makes it")
        if not path.with_name(f"{name}.spdx.json").is_file():
            raise deb.Failed(f"{path}.spdx.json, which says what it is made of, is missing: tools/sbom programs writes it")
        said = library.version_of(path) if is_library else deb.run(path, "--version")
        if said.split()[-1:] != [wanted]:
            raise deb.Failed(f"{path} is version {said.split()[-1:]}, base/version.h says {wanted}: {build} makes it anew")


def put(root, place, content, mode=0o644):
    path = root / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(mode)


def alerts():
    """Those of the manifests, as a Prometheus reads them that no operator tells of them."""
    manifest = (ROOT / "deploy/components/monitoring/alerts.yaml").read_text(encoding="utf-8")
    head, _, rules = manifest.partition("\nspec:\n")
    if not rules.startswith("  groups:"):
        raise deb.Failed("deploy/components/monitoring/alerts.yaml has no groups below its spec")
    return head.partition("\n")[0] + "\n" + textwrap.dedent(rules)


def tree(name, programs, root, told_version, date_s):
    """The files of a package, below `root`."""
    put(root, f"usr/share/doc/{name}/copyright", copyright_text())
    date = time.strftime("%Y-%m-%d", time.gmtime(date_s))
    if name in LIBRARIES:
        library.put(root, name, programs, told_version, date)
        return
    package = PACKAGES[name]
    for program in package["programs"]:
        put(root, f"usr/bin/{program}", (programs / program).read_bytes(), 0o755)
        put(root, f"usr/share/doc/{name}/{program}.spdx.json", (programs / f"{program}.spdx.json").read_bytes())
    for source, place in package["files"].items():
        put(root, place, (ROOT / source).read_bytes())
    section = 8 if name == "kerfd" else 1
    for page, text in man.pages(programs / name, section, date, told_version).items():
        put(root, f"usr/share/man/man{section}/{page}.gz", man.compressed(text))
    if name == "kerf":
        for shell, place in COMPLETIONS.items():
            put(root, place, deb.run(programs / "kerf", "completion", shell).encode())
        (root / "etc/kerf/backup").mkdir(parents=True)
    else:
        put(root, "usr/share/doc/kerfd/examples/alerts.yml", alerts().encode())
    put(root, f"usr/share/doc/{name}/README.md", (SOURCES / "README.md").read_bytes())


def copyright_text():
    header = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: kerf\n\nFiles: *\n" \
             "Copyright: the kerf authors\nLicense: Apache-2.0\n On Debian systems: /usr/share/common-licenses/Apache-2.0.\n" \
             " Parts of other libraries are linked in; they are told by the SPDX documents beside this file.\n"
    return header.encode()


def fields_of(name, programs, package_version):
    """What dpkg is told of a package."""
    if name == library.DEVELOPMENT:
        # The link in it is to that very library.
        depends, recommends = f"{library.RUNTIME} (= {package_version})", ""
    elif name == library.RUNTIME:
        depends, recommends = deb.shared_libraries([programs / library.SONAME]), ""
    else:
        package = PACKAGES[name]
        libraries = deb.shared_libraries([programs / program for program in package["programs"]])
        depends, recommends = f"{libraries}, {package['depends']}", package["recommends"]
    told = {**PACKAGES, **LIBRARIES}[name]
    return {"Package": name, "Section": told.get("section", "admin"), "Priority": "optional", "Depends": depends,
            "Recommends": recommends, "Description": told["description"]}


def debian_package(name, programs, target, package_version, date_s):
    """`package_version` is Debian's, and may be another one than the programs say of themselves (tests of upgrades)."""
    scripts = {script: SOURCES / f"scripts/{name}.{script}" for script in deb.SCRIPTS
               if (SOURCES / f"scripts/{name}.{script}").is_file()}
    fields = fields_of(name, programs, package_version)
    with tempfile.TemporaryDirectory(prefix="kerf-package-") as folder:
        root = pathlib.Path(folder)
        tree(name, programs, root, version(), date_s)
        return deb.build(root, fields, package_version, date_s, scripts, target, library.control(name, package_version))


def tarball(programs, target, date_s):
    """bin/, etc/, include/, lib/, share/ below one folder."""
    top = f"kerf-{version()}"
    path = target / f"{top}-linux-{deb.architecture()}.tar.gz"
    with tempfile.TemporaryDirectory(prefix="kerf-tarball-") as folder:
        root = pathlib.Path(folder)
        for name in (*PACKAGES, *libraries(programs)):
            tree(name, programs, root, version(), date_s)
        for unused in UNUSED_IN_TARBALL:
            (root / unused).unlink(missing_ok=True)
        shutil.copyfile(ROOT / "LICENSE", root / "usr/LICENSE")
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for file in sorted(root.rglob("*")):
                entry = archive.gettarinfo(file, f"{top}/{str(file.relative_to(root)).removeprefix('usr/')}")
                if entry.name == f"{top}/usr":
                    continue
                entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = date_s, 0, 0, "root", "root"
                with open(file, "rb") if file.is_file() else io.BytesIO() as content:
                    archive.addfile(entry, content if file.is_file() else None)
    path.write_bytes(gzip.compress(buffer.getvalue(), compresslevel=6, mtime=0))
    return path


def wheel(target):
    done = subprocess.run([ROOT / "client/python/build", target], capture_output=True, text=True, check=False, timeout=WHEEL_TIMEOUT_S)
    if done.returncode != 0:
        raise deb.Failed(f"client/python/build: {done.stderr.strip()}")
    return pathlib.Path(done.stdout.strip().splitlines()[-1])


def make(programs, target, with_wheel, with_images):
    check_programs(programs, version())
    target.mkdir(parents=True, exist_ok=True)
    for old in {path for pattern in OURS for path in target.glob(pattern)}:
        old.unlink()
    if not libraries(programs):
        print(f"tools/package: without {' and '.join(LIBRARIES)}: tools/build libkerf makes {library.SONAME}", file=sys.stderr)
    date_s = epoch_s()
    made = [debian_package(name, programs, target, deb.debian_version(version()), date_s) for name in (*PACKAGES, *libraries(programs))]
    made.append(tarball(programs, target, date_s))
    if with_wheel:
        made.append(wheel(target))
    if with_images:
        made += image.make(programs, target, version())
    sums = "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in made)
    (target / "SHA256SUMS").write_text(sums, encoding="utf-8")
    return made


def main():
    parser = argparse.ArgumentParser(prog="tools/package", description=__doc__.split(": ", 1)[1],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=pathlib.Path, default=ROOT / "out", help="the folder of kerf, kerf-lab, kerfd and libkerf.so.0 (out)")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "out/packages", help="where they are left, in the place of earlier ones")
    parser.add_argument("--no-wheel", action="store_true", help="without the Python client, which needs the network once")
    parser.add_argument("--no-images", action="store_true", help="without images, and what of Debian goes into them")
    options = parser.parse_args()
    try:
        for path in make(options.programs.resolve(), options.output.resolve(), not options.no_wheel, not options.no_images):
            print(f"tools/package: {path} ({path.stat().st_size:,} bytes)")
    except (deb.Failed, man.Failed) as failure:
        print(f"tools/package: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
