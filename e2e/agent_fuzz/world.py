"""What all rounds of one worker share: three file systems with faults, and a kerfd."""

import contextlib
import pathlib
import shutil
import subprocess

import disks
import faults
import processes
import runs

READY_TIMEOUT_S = 30
# Of these only what a round has at once is used.
TREES_BYTES, MEMORY_BYTES = 1024**3, 4 * 1024**3
# As mkfs makes of larger disks: holes begin where they do in memory.
LARGE_BLOCKS = ("-b", "4096")


class World:
    """`source`, `store` and `target` are fault file systems. Trees are on ext4 with a journal, where the inode of what was removed
    is that of what is made next; all else is in memory, for an ext4 without one looks at each inode that was removed in the last
    minute whenever it makes one, and half of the time went there."""

    def __init__(self, programs, folder):
        self.kerf, self._kerfd, fault_fs = programs.kerf, programs.kerfd, programs.fault_fs
        self._stack = contextlib.ExitStack()
        self._kerfd_process = None
        try:
            trees = self._disk("ext4", folder / "trees", TREES_BYTES, LARGE_BLOCKS)
            self.folder = self._disk("tmpfs", folder / "memory", MEMORY_BYTES)
            self.source = self._mount(fault_fs, trees / "source")
            self.store, self.target = [self._mount(fault_fs, self.folder / name) for name in ("store", "target")]
            self.start_kerfd()
            self._stack.callback(self.kill_kerfd)
        except BaseException:
            self._stack.close()
            raise

    def _disk(self, *disk):
        disk = disks.Disk(*disk)
        self._stack.enter_context(disk.mounted())
        return disk.path

    def _mount(self, program, folder):
        mounted = faults.FaultFs(program, folder)
        self._stack.callback(mounted.end)
        return mounted

    def end(self):
        self._stack.close()

    @property
    def server(self):
        return f"unix:{self.folder}/kerfd.socket"

    def start_kerfd(self):
        ready = self.folder / "ready"
        ready.unlink(missing_ok=True)
        (self.folder / "kerfd.socket").unlink(missing_ok=True)
        log = self.folder / "kerfd.log"
        with open(log, "ab") as output:
            self._kerfd_process = subprocess.Popen(
                [self._kerfd, "--listen", self.server, "--data-dir", self.folder / "kerfd", "--ready-file", ready, "--gpu", "off",
                 "--backend", "scalar", "--worker-threads", "2"], stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        processes.wait_until(ready.exists, READY_TIMEOUT_S, "kerfd to serve", lambda: processes.log_tail(log), poll_s=0.01,
                             processes=[self._kerfd_process])

    def kill_kerfd(self):
        self._kerfd_process.kill()
        self._kerfd_process.wait()

    def lose_index(self):
        self.kill_kerfd()
        shutil.rmtree(self.folder / "kerfd")
        self.start_kerfd()

    def restart_kerfd(self):
        self.kill_kerfd()
        self.start_kerfd()

    def check_kerfd(self):
        if self._kerfd_process.poll() is not None:
            code = self._kerfd_process.returncode
            self.start_kerfd()
            raise runs.Wrong(f"kerfd has ended with {code}: {processes.log_tail(self.folder / 'kerfd.log')}")

    def start(self, log, *arguments, clock_s=0):
        return runs.Run(self.kerf, pathlib.Path(log), *arguments, home=self.folder / "home", clock_s=clock_s)
