"""A kerfd of the load test's own, with the embedded index, on loopback."""

import pathlib
import subprocess
import time

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
        deadline = time.monotonic() + START_TIMEOUT_S
        while not ready.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.process.kill()
                raise OSError(f"{self.program} did not start")
            time.sleep(0.02)
        return ready.read_text().split()[0]

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(timeout=START_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
