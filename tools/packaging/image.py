"""Images as OCI archives: what deploy/image has of root file systems and of the Dockerfile, below names and with a list."""

import os
import pathlib
import tempfile

import deb

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What a cluster runs (deploy/overlays/prod), and what one machine does. kerf-cuda needs a plug-in that not every build has, and
# kerf-loadtest is for tests.
IMAGES = ("kerf", "kerf-agent", "kerf-redis")
LIST = "IMAGES"
# Some seconds on a machine that has nothing else to do.
ASSEMBLY_TIMEOUT_S = 600


def archive_name(name, version):
    return f"{name}-{version}-oci-{deb.architecture()}.tar"


def make(programs, target, version):
    """Of `programs`, a folder, in `target`. The same programs, packages of Debian and commit are the same bytes."""
    made, lines = [], []
    for name in IMAGES:
        path = target / archive_name(name, version)
        with tempfile.TemporaryDirectory(prefix="kerf-image-") as folder:
            root = pathlib.Path(folder) / "root.tar"
            deb.run(ROOT / "deploy/image/rootfs", name, root, timeout_s=ASSEMBLY_TIMEOUT_S,
                    env={**os.environ, "KERF_IMAGE_PROGRAMS": str(programs)})
            digest = deb.run(ROOT / "deploy/image/archive", name, root, path).strip()
            document = path.with_suffix(".spdx.json")
            document.write_bytes(root.with_suffix(".spdx.json").read_bytes())
        lines.append(f"{name}:{version} {digest} {path.name}\n")
        made += [path, document]
    listed = target / LIST
    listed.write_text("".join(lines), encoding="utf-8")
    return [*made, listed]
