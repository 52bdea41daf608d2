"""Locust's agents, which check every answer, beside something else that is done to a cluster."""

import pathlib
import subprocess

import processes

HERE = pathlib.Path(__file__).resolve().parent
# It is ended when all else is.
MAX_S = 3600
# Also on a machine that others keep busy.
STARTS_S = 240
ENDS_S = 180
POLL_S = 0.2


class Load:
    """From here to end(). `folder` is that of a tools/cluster, whose fronts it asks; `out` gets logs and reports. Raises
    OSError where it does not start."""

    def __init__(self, folder, users, work, out):
        self.log = out / "locust.log"
        self._end_file = work / "load-ends"
        command = [HERE / "run", "faults", "--cluster", folder, "--time", str(MAX_S), "--users", str(users),
                   "--set", f"load.end_file={self._end_file}", "--set", "cluster.roll_at_s=0", "--slo",
                   HERE / "faults_slo.toml", "--out", out / "locust"]
        with open(self.log, "wb") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            processes.wait_until(lambda: "All users spawned" in self.log.read_text(errors="replace"), STARTS_S,
                                 "the start of the load", poll_s=POLL_S, processes=[self._process])
        except processes.Failed as error:
            self.end()
            raise OSError(f"{error}: see {self.log}") from error

    def is_alive(self):
        return self._process.poll() is None

    def end(self):
        """Its exit code, 0 if no file failed and no answer was wrong; None if it had to be killed."""
        self._end_file.touch()
        try:
            return self._process.wait(timeout=ENDS_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            return None

    def figures(self):
        lines = self.log.read_text(errors="replace").splitlines()
        return [line for line in lines if "MiB of finished files" in line or line.endswith(("  ok", "  MISSED"))]
