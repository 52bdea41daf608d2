"""Random edits of a tree, as people and programs make them between backups and during one."""

import os
import stat

import trees

MAX_BYTES = 8_000_000


class Editor:
    """Edits below a maker's root. `touched` are the paths that it has made other than they were, with all below them, and
    `folders` those of which the own entry alone is other; relative to it. `moved`: a folder went
    elsewhere."""

    def __init__(self, maker):
        self.maker, self.random, self.root = maker, maker.random, maker.root
        self.touched, self.folders, self.moved = set(), set(), False

    def touch(self, *paths):
        for path in paths:
            self.touched.add(os.path.relpath(path, self.root) if path != self.root else b"")

    def folder_changes(self, *paths):
        """What is in it stays as it is; its own entry does not."""
        for path in paths:
            self.folders.add(os.path.relpath(path, self.root) if path != self.root else b"")

    def edit(self, count):
        """What was done, in words."""
        done = []
        for _ in range(count):
            directories, others = trees.everything(self.root)
            files = [path for path in others if stat.S_ISREG(os.lstat(path).st_mode)]
            choice = self.random.choice(self.EDITS)
            done.append(choice.__name__)
            choice(self, directories, others, files)
        return done

    def names_of(self, path):
        """All names of its inode."""
        found = os.lstat(path)
        if found.st_nlink == 1:
            return [path]
        return [other for other in trees.everything(self.root)[1]
                if (lambda other: (other.st_dev, other.st_ino))(os.lstat(other)) == (found.st_dev, found.st_ino)]

    # Bytes of files that stay what they are.

    def rewrite(self, directories, others, files):
        """In place: a few bytes, of the same size; half of the time with the time as it was."""
        if not files:
            return
        path = self.random.choice(files)
        found = os.lstat(path)
        self.touch(*self.names_of(path))
        if found.st_size == 0:
            return
        with open(path, "r+b", buffering=0) as file:
            file.seek(self.random.randrange(found.st_size))
            file.write(self.random.randbytes(min(self.random.choice((1, 100, 9000)), found.st_size)))
            file.truncate(found.st_size)
        if self.random.random() < 0.5:
            os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))

    def resize(self, directories, others, files):
        if not files:
            return
        path = self.random.choice(files)
        self.touch(*self.names_of(path))
        size = os.lstat(path).st_size
        with open(path, "r+b", buffering=0) as file:
            if self.random.random() < 0.5:
                file.truncate(self.random.choice((0, size // 2, max(0, size - 1), min(size + 5000, MAX_BYTES))))
            else:
                file.seek(min(size, MAX_BYTES))
                file.write(self.random.randbytes(self.random.randint(1, 20_000)))

    def write_anew(self, directories, others, files):
        if files:
            path = self.random.choice(files)
            self.touch(*self.names_of(path))
            self.maker.write(path)

    # Names.

    def replace(self, directories, others, files):
        """By a new file, over the old name: as editors save. Or deleted and made again: often the same inode."""
        if not files:
            return
        path = self.random.choice(files)
        found = os.lstat(path)
        self.touch(*self.names_of(path))
        self.folder_changes(os.path.dirname(path))
        if self.random.random() < 0.5:
            beside = self.maker.new_path(os.path.dirname(path))
            self.maker.write(beside)
            os.rename(beside, path)
        else:
            os.unlink(path)
            with open(path, "wb") as file:
                file.write(self.random.randbytes(min(found.st_size, MAX_BYTES)))
        if self.random.random() < 0.5:
            os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))

    def reuse_inode(self, directories, others, files):
        """A file goes, and two names of another one come, in the place of its inode where the file system gives it."""
        linked = [path for path in files if os.lstat(path).st_nlink > 1]
        if not files:
            return
        path = self.random.choice(linked or files)
        self.touch(*self.names_of(path))
        for name in self.names_of(path):
            self.folder_changes(os.path.dirname(name))
            os.unlink(name)
        directory = self.random.choice(directories)
        new = self.maker.new_path(directory)
        self.maker.write(new)
        other = self.maker.new_path(self.random.choice(directories))
        os.link(new, other)
        self.touch(new, other)
        self.folder_changes(directory, os.path.dirname(other))

    def rename(self, directories, others, files):
        if not others:
            return
        path = self.random.choice(others)
        to = self.maker.new_path(self.random.choice(directories))
        # The first name of an inode is what its others are links of.
        self.touch(*self.names_of(path), to)
        self.folder_changes(os.path.dirname(path), os.path.dirname(to))
        os.rename(path, to)

    def swap_directories(self, directories, others, files):
        pairs = [(one, other) for one in directories[1:] for other in directories[1:]
                 if not (one + b"/").startswith(other + b"/") and not (other + b"/").startswith(one + b"/")]
        if not pairs:
            return
        one, other = self.random.choice(pairs)
        beside = self.maker.new_path(self.root)
        self.touch(*self.links_into(one, others), *self.links_into(other, others), one, other)
        self.folder_changes(self.root, os.path.dirname(one), os.path.dirname(other))
        self.moved = True
        for source, target in ((one, beside), (other, one), (beside, other)):
            os.rename(source, target)

    def links_into(self, directory, others):
        """All names of files that have one below it."""
        return [name for path in others if path.startswith(directory + b"/") and os.lstat(path).st_nlink > 1
                for name in self.names_of(path)]

    def move_directory(self, directories, others, files):
        if len(directories) < 2:
            return
        path = self.random.choice(directories[1:])
        targets = [one for one in directories if not (one + b"/").startswith(path + b"/")]
        to = self.maker.new_path(self.random.choice(targets))
        if len(to) > trees.MAX_PATH:
            return
        self.touch(*self.links_into(path, others), path, to)
        self.folder_changes(os.path.dirname(path), os.path.dirname(to))
        self.moved = True
        os.rename(path, to)

    def add(self, directories, others, files):
        directory = self.random.choice(directories)
        path = self.maker.make(directory, others)
        self.touch(*(self.names_of(path) if not trees.is_directory(path) else [path]))
        self.folder_changes(directory)

    def remove(self, directories, others, files):
        if others:
            path = self.random.choice(others)
            self.touch(*self.names_of(path))
            self.folder_changes(os.path.dirname(path))
            os.unlink(path)

    def change_kind(self, directories, others, files):
        """What was something else becomes a directory with a file in it, under the same name."""
        if not others:
            return
        path = self.random.choice(others)
        self.touch(*self.names_of(path))
        self.folder_changes(os.path.dirname(path))
        os.unlink(path)
        os.mkdir(path)
        if len(path) < trees.MAX_PATH:
            self.maker.make(path)

    # All else.

    def dress(self, directories, others, files):
        path = self.random.choice(directories + others)
        if trees.is_directory(path):
            self.folder_changes(path)
        else:
            self.touch(*self.names_of(path))
        self.maker.dress(path)

    def strip(self, directories, others, files):
        path = self.random.choice(directories + others)
        if trees.is_directory(path):
            self.folder_changes(path)
        else:
            self.touch(*self.names_of(path))
        for name in os.listxattr(path, follow_symlinks=False):
            os.removexattr(path, name, follow_symlinks=False)

    EDITS = (rewrite,) * 4 + (resize,) * 2 + (write_anew, replace, replace, reuse_inode, reuse_inode, rename, swap_directories,
                                              move_directory, add, add, remove, change_kind, dress, strip)
