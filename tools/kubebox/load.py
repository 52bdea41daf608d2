"""Agents that back up, one run after another, while something is done to the cluster."""

import random
import shutil
import subprocess
import threading

from processes import Failed, run

FILES_PER_RUN = 24
SMALL_BYTES = 200_000
LARGE_BYTES = 24_000_000
BACKUP_TIMEOUT_S = 240
EXIT_PARTIAL = 3


class Agent(threading.Thread):
    """Fresh files in each run, so that every byte goes to a worker; then the run's exit code counts:
    it is 0 only if every file is in the snapshot."""

    def __init__(self, folder, command, seed):
        super().__init__(daemon=True)
        self.folder, self.command, self.random = folder, command, random.Random(seed)
        self.stopping = threading.Event()
        self.backups, self.failure = 0, ""
        self.begun = 0

    def tree(self):
        return self.folder / f"tree{self.begun % 2}"

    def write_tree(self):
        shutil.rmtree(self.tree(), ignore_errors=True)
        self.tree().mkdir(parents=True)
        for index in range(FILES_PER_RUN):
            (self.tree() / f"small{index}").write_bytes(self.random.randbytes(SMALL_BYTES))
        (self.tree() / "large").write_bytes(self.random.randbytes(LARGE_BYTES))

    def back_up(self):
        """What went wrong, or nothing."""
        try:
            done = subprocess.run([*self.command, "backup", self.tree(), "--store",
                                   self.folder / "store", "--quiet"], capture_output=True,
                                  text=True, check=False, timeout=BACKUP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return f"a backup was not done within {BACKUP_TIMEOUT_S} s"
        # The snapshot is whole: a worker that was lost at the very end has not told the index.
        if done.returncode == EXIT_PARTIAL and "what was stored is whole" in done.stderr:
            return ""
        if done.returncode != 0:
            return f"a backup ended with exit code {done.returncode}:\n{done.stderr.strip()}"
        return ""

    def run(self):
        while not self.stopping.is_set() and not self.failure:
            try:
                self.write_tree()
                self.failure = self.back_up()
            except OSError as error:
                self.failure = f"a backup could not be begun: {error!r}"
            if not self.failure:
                self.backups += 1
                self.begun += 1

    def check(self):
        """Its store is whole, and the last snapshot is the last tree."""
        run([*self.command, "verify", "--store", self.folder / "store", "--read-data"],
            timeout_s=BACKUP_TIMEOUT_S)
        self.begun -= 1
        restore_and_compare(self.command, self.folder / "store", self.tree(),
                            self.folder / "restored")


def restore_and_compare(command, store, tree, target):
    run([*command, "restore", "latest", "--store", store, "--target", target],
        timeout_s=BACKUP_TIMEOUT_S)
    # A snapshot keeps whole paths.
    run(["diff", "--recursive", "--no-dereference", tree, f"{target}{tree}"],
        timeout_s=BACKUP_TIMEOUT_S)


class Load:
    """`with Load(...)`: what is done inside is done under load, and no backup may fail of it."""

    def __init__(self, folder, command, what, seed, agents=2):
        self.folder, self.what = folder, what
        self.agents = [Agent(folder / f"agent{index}", command, f"{seed} {what} {index}")
                       for index in range(agents)]

    def __enter__(self):
        for agent in self.agents:
            agent.start()
        return self

    def __exit__(self, kind, error, trace):
        for agent in self.agents:
            agent.stopping.set()
        for agent in self.agents:
            agent.join()
        if error is not None:
            return
        failures = [agent.failure for agent in self.agents if agent.failure]
        if failures:
            raise Failed(f"{self.what}: " + "\n".join(failures))
        count = sum(agent.backups for agent in self.agents)
        for agent in self.agents:
            if agent.backups == 0:
                raise Failed(f"{self.what}: an agent has not done one backup, so it shows nothing")
            agent.check()
        print(f"  under load: {count} backups of {1 + FILES_PER_RUN} files, none failed; stores "
              "verified, last trees restored", flush=True)
        shutil.rmtree(self.folder)
