"""A small Debian in a folder, for tests of packages: of packages that are installed here, and of nothing else of this machine.

Their files, and a database of dpkg that knows these alone. Without a registry and without the scripts of each, it is
there in seconds; and what kerf's packages need beyond it, dpkg says.
"""

import pathlib
import re
import shutil
import subprocess

COPY_TIMEOUT_S = 300
# What boots and installs.
WANTED = ("systemd", "systemd-sysv", "dpkg", "init-system-helpers", "base-files", "base-passwd", "libc-bin", "passwd", "mawk",
          "diffutils", "findutils", "procps")
INFO = pathlib.Path("/var/lib/dpkg/info")
DATABASE_FOLDERS = ("info", "updates", "triggers", "alternatives", "parts")


class Failed(Exception):
    """What a person is told."""


def _run(*words, **options):
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=COPY_TIMEOUT_S, **options)
    if done.returncode != 0:
        raise Failed(f"{' '.join(words[:4])}: exit code {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def installed():
    """{package: (paragraph of dpkg's status, what it needs)} and {virtual package: package that provides it}."""
    packages, providers = {}, {}
    for paragraph in pathlib.Path("/var/lib/dpkg/status").read_text(encoding="utf-8").split("\n\n"):
        fields = dict(re.findall(r"^([A-Za-z-]+): *(.*(?:\n .*)*)", paragraph, re.M))
        if fields.get("Status", "").split()[-1:] != ["installed"]:
            continue
        name = fields["Package"]
        # Of several architectures, this machine's own.
        if name in packages and fields["Architecture"] not in ("all", _architecture()):
            continue
        needs = [[alternative.split()[0].split(":")[0] for alternative in group.split("|")]
                 for key in ("Pre-Depends", "Depends") for group in fields.get(key, "").split(",") if group.strip()]
        packages[name] = (paragraph.strip() + "\n", needs, fields.get("Essential") == "yes", fields)
        for provided in fields.get("Provides", "").split(","):
            if provided.strip():
                providers.setdefault(provided.split()[0], name)
    return packages, providers


def _architecture():
    return _run("dpkg", "--print-architecture").strip()


def closure(wanted):
    """These packages, those that each system has, and all that they need."""
    packages, providers = installed()
    found = set()
    waiting = [*wanted, *[name for name, (_, _, is_essential, _) in packages.items() if is_essential]]
    while waiting:
        name = waiting.pop()
        name = name if name in packages else providers.get(name, name)
        if name in found:
            continue
        if name not in packages:
            raise Failed(f"the package {name} is not installed here: tools/deps package installs what is missing")
        found.add(name)
        for alternatives in packages[name][1]:
            present = [one for one in alternatives if one in packages or one in providers]
            waiting.append((present or alternatives)[0])
    return sorted(found), {name: packages[name] for name in found}


def make(root, wanted=()):
    """Fills `root`, an empty folder; as root."""
    names, packages = closure([*WANTED, *wanted])
    for link in ("bin", "sbin", "lib", "lib64"):
        (root / "usr" / link).mkdir(parents=True, exist_ok=True)
        (root / link).symlink_to(f"usr/{link}")
    database = root / "var/lib/dpkg"
    for folder in DATABASE_FOLDERS:
        (database / folder).mkdir(parents=True)
    files = set()
    for name in names:
        _, _, _, fields = packages[name]
        stem = name if (INFO / f"{name}.list").is_file() else f"{name}:{fields['Architecture']}"
        for path in INFO.glob(f"{stem}.*"):
            shutil.copy2(path, database / "info" / path.name)
        for line in (INFO / f"{stem}.list").read_text(encoding="utf-8").splitlines():
            files.add(line.lstrip("/"))
    listed = sorted(file for file in files if file not in (".", "") and _is_here(file))
    _copy(root, listed)
    (database / "status").write_text("\n".join(packages[name][0] for name in names) + "\n", encoding="utf-8")
    for name in ("info/format", "arch"):
        if (source := pathlib.Path("/var/lib/dpkg") / name).is_file():
            shutil.copy2(source, database / name)
    _settle(root)


def _is_here(file):
    """Documentation is of no use there, and not everything of a package is still where it was."""
    return not file.startswith(("usr/share/doc/", "usr/share/man/", "usr/share/locale/", "usr/share/info/")) and \
        (pathlib.Path("/") / file).is_symlink() | (pathlib.Path("/") / file).exists()


def _copy(root, files):
    text = "\0".join(files).encode()
    packer = subprocess.Popen(["tar", "-C", "/", "--no-recursion", "--null", "-T", "-", "-cf", "-"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    unpacker = subprocess.Popen(["tar", "-C", str(root), "--keep-directory-symlink", "-xpf", "-"], stdin=packer.stdout)
    packer.stdout.close()
    packer.stdin.write(text)
    packer.stdin.close()
    if unpacker.wait(COPY_TIMEOUT_S) != 0 or packer.wait(COPY_TIMEOUT_S) != 0:
        raise Failed(f"the files of packages could not be copied to {root}")


def _settle(root):
    """What the scripts of the packages would have made."""
    for name in ("passwd", "group"):
        shutil.copyfile(f"/usr/share/base-passwd/{name}.master", root / "etc" / name)
    (root / "etc/shadow").write_text("root:*:19000:0:99999:7:::\n", encoding="utf-8")
    (root / "etc/machine-id").write_text("", encoding="utf-8")
    (root / "etc/hostname").write_text("bare\n", encoding="utf-8")
    for folder in ("dev", "proc", "sys", "run", "root", "var/tmp", "var/log", "etc/alternatives"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "tmp").mkdir(exist_ok=True)
    (root / "tmp").chmod(0o1777)
    if not (root / "usr/bin/awk").exists():
        (root / "usr/bin/awk").unlink(missing_ok=True)
        (root / "usr/bin/awk").symlink_to("mawk")
    _run("ldconfig", "-r", str(root))
