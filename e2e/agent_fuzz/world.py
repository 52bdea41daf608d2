"""What all rounds of one worker share: three file systems with faults, and a kerfd."""

import contextlib
import pathlib
import shutil
import subprocess

import faults
import processes
import runs

READY_TIMEOUT_S = 30


class World:
    """`source`, `store` and `target` are fault file systems. The folder is on ext4 or the like: with inodes that come back."""

    def __init__(self, programs, folder):
        self.kerf, self._kerfd, fault_fs = programs.kerf, programs.kerfd, programs.fault_fs
        self.folder = folder
        self._stack = contextlib.ExitStack()
        self._kerfd_process = None
        try:
            self.source, self.store, self.target = [self._mount(fault_fs, folder / name)
                                                    for name in ("source", "store", "target")]
            self.start_kerfd()
            self._stack.callback(self.kill_kerfd)
        except BaseException:
            self._stack.close()
            raise

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
