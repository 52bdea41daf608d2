"""A Debian package of a folder: made by dpkg-deb, the same bytes for the same files.

Times are those of SOURCE_DATE_EPOCH, everything is root's, and what a program needs of others dpkg-shlibdeps says.
"""

import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

TOOL_TIMEOUT_S = 120
MAINTAINER = "The kerf authors <kerf@localhost>"
SCRIPTS = ("preinst", "postinst", "prerm", "postrm")


class Failed(Exception):
    """What a person is told."""


def run(*words, timeout_s=TOOL_TIMEOUT_S, **options):
    """What it prints."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, timeout=timeout_s, **options)
    if done.returncode != 0:
        raise Failed(f"{' '.join(map(str, words))}: exit code {done.returncode}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def debian_version(version):
    """What comes before a release ("0.2.0-dev") has to sort before it."""
    if not re.fullmatch(r"[0-9][A-Za-z0-9.+-]*", version):
        raise Failed(f"'{version}' is no version of a package")
    return version.replace("-", "~")


def architecture():
    return run("dpkg", "--print-architecture").strip()


def shared_libraries(programs):
    """Depends of the shared libraries that they were linked with."""
    with tempfile.TemporaryDirectory(prefix="kerf-shlibdeps-") as name:
        folder = pathlib.Path(name)
        (folder / "debian").mkdir()
        (folder / "debian/control").write_text("Source: kerf\n\nPackage: kerf\nArchitecture: any\n", encoding="utf-8")
        said = run("dpkg-shlibdeps", "-O", *[f"-e{program.resolve()}" for program in programs], cwd=folder)
    return said.strip().removeprefix("shlibs:Depends=")


def set_times(root, epoch_s):
    for path in [root, *root.rglob("*")]:
        os.utime(path, (epoch_s, epoch_s), follow_symlinks=False)


def _control(fields, root, version):
    size_kib = sum(-(-path.lstat().st_size // 1024) if path.is_file() else 1 for path in root.rglob("*"))
    lines = {"Package": fields["Package"], "Source": "kerf", "Version": version, "Architecture": architecture(),
             "Maintainer": MAINTAINER, "Installed-Size": str(size_kib), **fields}
    return "".join(f"{name}: {value}\n" for name, value in lines.items() if value)


def build(tree, fields, version, epoch_s, scripts, target_folder, more=None):
    """The package of `tree`, a folder that becomes the root; whatever lies in etc/ is the administrator's (a conffile).
    `scripts`: {postinst: path, ...}; `more`: {shlibs: text, ...}, which dpkg reads, too. Returns its path."""
    with tempfile.TemporaryDirectory(prefix="kerf-deb-") as name:
        root = pathlib.Path(name) / "root"
        shutil.copytree(tree, root, symlinks=True)
        files = sorted(path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
        conffiles = [path for path in files if path.is_relative_to(root / "etc")]
        sums = "".join(f"{hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()}  {path.relative_to(root)}\n"
                       for path in files if path not in conffiles)
        control = root / "DEBIAN"
        text = _control(fields, root, version)
        control.mkdir()
        (control / "control").write_text(text, encoding="utf-8")
        (control / "md5sums").write_text(sums, encoding="utf-8")
        if conffiles:
            (control / "conffiles").write_text("".join(f"/{path.relative_to(root)}\n" for path in conffiles), encoding="utf-8")
        for file, said in (more or {}).items():
            (control / file).write_text(said, encoding="utf-8")
        for script, source in scripts.items():
            shutil.copyfile(source, control / script)
            (control / script).chmod(0o755)
        for path in [root, *root.rglob("*")]:
            if not path.is_symlink():
                is_program = path.is_dir() or path.stat().st_mode & 0o100
                path.chmod(0o755 if is_program else 0o644)
        set_times(root, epoch_s)
        target = target_folder / f"{fields['Package']}_{version}_{architecture()}.deb"
        run("dpkg-deb", "--root-owner-group", "-Zzstd", "-z9", "--threads-max=1", "--build", root, target,
            env={**os.environ, "SOURCE_DATE_EPOCH": str(epoch_s)})
    return target
