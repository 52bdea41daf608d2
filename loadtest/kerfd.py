"""A kerfd of the load test's own, with the embedded index, on loopback."""

import pathlib
import subprocess

import processes

START_TIMEOUT_S = 30


class Kerfd:
    """`with Kerfd(program, folder) as address:`; stopped at the end."""

    def __init__(self, program, folder):
        self.program, self.folder = pathlib.Path(program), pathlib.Path(folder)

    def __enter__(self):
        ready = self.folder / "ready"
        self.process = subprocess.Popen(
            [self.program, "--listen", "127.0.0.1:0", "--data-dir", self.folder / "data", "--ready-file", ready,
             "--log-level", "warning"])
        try:
            processes.wait_until(ready.exists, START_TIMEOUT_S, f"the start of {self.program}", processes=[self.process])
        except processes.Failed as error:
            self.process.kill()
            raise OSError(str(error)) from error
        return ready.read_text().split()[0]

    def __exit__(self, *_):
        processes.stop(self.process, START_TIMEOUT_S)
