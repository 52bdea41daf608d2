"""An image of one layer, written as an OCI archive without any container tool: the same root is the same digest."""

import hashlib
import io
import json
import tarfile


def write_image(archive, name, root, entrypoint=(), user=None, env=()):
    """`name`: as a container runtime is to know it, with a tag or without one. `root`: the bytes of a tar of the image's files. Returns
    the image's digest, by which a registry knows it; it does not depend on the name."""
    blobs = {}

    def blob(data, kind):
        digest = hashlib.sha256(data).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = data
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}",
                "size": len(data)}

    layer = blob(root, "layer.v1.tar")
    config = blob(json.dumps({
        "architecture": "amd64", "os": "linux",
        "config": {"Entrypoint": list(entrypoint), **({"User": user} if user else {}), **({"Env": list(env)} if env else {})},
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]}}).encode(), "config.v1+json")
    manifest = blob(json.dumps({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config, "layers": [layer]}).encode(), "manifest.v1+json")
    # containerd, Docker and Podman read the first; what goes by the specification alone, as umoci, the second.
    tag = name.rpartition("/")[2].partition(":")[2]
    manifest["annotations"] = {"io.containerd.image.name": name, **({"org.opencontainers.image.ref.name": tag} if tag else {})}
    blobs["oci-layout"] = json.dumps({"imageLayoutVersion": "1.0.0"}).encode()
    blobs["index.json"] = json.dumps({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [manifest]}).encode()
    with tarfile.open(archive, "w") as tar:
        for path, data in blobs.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return manifest["digest"]
