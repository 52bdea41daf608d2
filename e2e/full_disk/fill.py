"""fill.py FOLDER: takes the last block of the file system, or of the quota, for files in FOLDER."""

import errno
import os
import pathlib
import sys

FIRST_BYTES, LAST_BYTES = 1 << 20, 512
FULL = (errno.ENOSPC, errno.EDQUOT)


def fill(folder):
    folder.mkdir(exist_ok=True)
    path = folder / os.urandom(8).hex()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    size, offset = FIRST_BYTES, 0
    while size >= LAST_BYTES:
        try:
            # Bytes that no file system makes fewer of; synced, for some tell late that there is no room.
            offset += os.pwrite(descriptor, os.urandom(size), offset)
            if size < FIRST_BYTES:
                os.fsync(descriptor)
        except OSError as error:
            if error.errno not in FULL:
                raise
            size //= 2
    os.close(descriptor)


if __name__ == "__main__":
    try:
        fill(pathlib.Path(sys.argv[1]))
    except OSError as error:
        # Not even the file's name has room.
        if error.errno not in FULL:
            raise
