"""A program in the root file system of an image, and nothing else of this machine: as a container has it, without a container daemon."""


def inside(root, user, *command, data=None):
    """The words that run `command` in the folder `root` alone, read-only but for /tmp and for /data, which is the folder `data`, with
    the network of this machine. `user`: number of the user, and of his group. Needs root, or leave to make namespaces."""
    mounts = [f"mount --rbind {root} {root}", f"mount -o remount,bind,ro {root}"]
    if data:
        mounts.append(f"mount --bind {data} {root}/data")
    mounts += [f"mount -t tmpfs -o mode=1777 tmpfs {root}/tmp", f"mount --rbind /proc {root}/proc",
               f"mount --rbind /dev {root}/dev"]
    script = " && ".join([*mounts, f'exec chroot --userspec={user}:{user} {root} "$@"'])
    return ["unshare", "--mount", "--propagation=private", "bash", "-c", script, "-", *command]
