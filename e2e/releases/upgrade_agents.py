"""The agents of upgrade_test: real ones, of either release, that back up without end, and what they were told."""

import shutil
import threading

import fault_agents

BIG_BYTES = 1_500_000
# Snapshots that are kept, and how often the others are forgotten and collected, in backups.
KEPT, COLLECTED_EVERY = 3, 4
OK, PARTIAL = 0, 3
# kerf 0.1.0 does not wait where a server is restarted; it is collected again then.
UNAVAILABLE = 5


class Client(fault_agents.Agent):
    """Any exit code of a backup but 0 is a problem. `collects`: it forgets what is old, and collects; only where it has its
    store for itself, as without `is_shared`."""

    def __init__(self, name, kerf, store, work, seed, fronts, *, collects=False, is_shared=False):
        super().__init__(name, kerf, store, work, seed, fronts, BIG_BYTES)
        self.done = self.collections = self.resumes = self.index_warnings = 0
        self._collects, self._is_shared, self._is_same = collects, is_shared, False

    def problem(self, text):
        self.problems.append(f"{self.name}: {text}")
        print(f"  {self.name}: {text}", flush=True)

    def is_alive(self):
        return self._thread.is_alive()

    def back_up(self, is_same=False):
        """`is_same`: the tree is as in the backup before, is read again, and nothing of it may be new."""
        self._is_same = is_same
        code = super().back_up()
        if code == OK:
            self.done += 1
        elif code == UNAVAILABLE:
            self.problem("a backup ended with 5: no server")
        if self._collects and self.done % COLLECTED_EVERY == 0 and not is_same:
            self.collect()
        return code

    def run(self, *arguments, **more):
        flags = ["--force"] if self._is_same and arguments[0] == "backup" else []
        code, messages = super().run(*arguments, *flags, **more)
        if arguments[0] == "backup":
            for message in messages:
                if message["message_type"] == "summary":
                    self.judge(message)
        return code, messages

    def judge(self, summary):
        """The verdicts of a backup."""
        self.resumes += summary["resumes"]
        if summary["stale_chunks"]:
            self.problem(f"{summary['stale_chunks']} chunks were DUPLICATE, and the store has them not")
        # Of a chunk that another agent is about to commit the index knows nothing yet; nor where it was behind before.
        if summary["healed_chunks"] and not self._is_shared and not self.index_warnings:
            self.problem(f"{summary['healed_chunks']} chunks were NEW, and the index had been told of them")
        if summary["index_warning"]:
            self.index_warnings += 1
        new_chunks = summary["new_chunks"] - summary.get("new_metadata_chunks", 0)
        if self._is_same and "new_metadata_chunks" in summary and new_chunks and not self.index_warnings:
            self.problem(f"{new_chunks} chunks of a tree that has not changed are new")

    def collect(self):
        kept = list(self.committed)
        for snapshot in kept[:-KEPT]:
            code, messages = self.run("forget", snapshot)
            if code == OK:
                del self.committed[snapshot]
            else:
                self.problem(f"forget ended with {code}: {messages[-1:]}")
        code, messages = self.run("gc", "--max-waste", "0", "--server", self.random.choice(self.fronts()).split(",")[0])
        if code == OK:
            self.collections += 1
        elif code != UNAVAILABLE:
            self.problem(f"gc ended with {code}: {messages[-2:]}")

    def restore_differs(self, snapshot, kerf):
        """In which way; empty if it is as it was backed up."""
        own, self.kerf = self.kerf, kerf
        target = self.work / f"{self.name}-restored"
        try:
            code, messages = self.run("restore", snapshot, "--target", str(target))
            if code != OK:
                return f"exit code {code}: {messages[-2:]}"
            held, found = self.committed[snapshot], fault_agents.manifest(type(target)(f"{target}{self.tree}"))
            return "" if found == held else f"{sorted(dict(found.items() ^ held.items()))} differ"
        finally:
            self.kerf = own
            shutil.rmtree(target, ignore_errors=True)


class Beginner:
    """Begins one store after another, with each of the programs in turn, and looks whether it is as it should be."""

    def __init__(self, name, kerfs, work, seed, fronts):
        self.name, self.problems, self.done = name, [], 0
        self._kerfs, self._work, self._seed, self._fronts = kerfs, work, seed, fronts
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name)

    def start(self):
        self._thread.start()

    def is_alive(self):
        return self._thread.is_alive()

    def give_up(self):
        self._ending.set()

    def join(self):
        self._thread.join()

    def _run(self):
        number = 0
        while not self._ending.wait(fault_agents.PAUSE_S):
            number += 1
            name = f"begun-{number}"
            try:
                self._begin(Client(name, self._kerfs[number % len(self._kerfs)], self._work / f"store-{name}", self._work,
                                   self._seed, self._fronts))
            except Exception as error:  # Whatever it is: one store less than there should be.
                self.problems.append(f"{name}: {error!r}")
                return

    def _begin(self, agent):
        if agent.back_up() == OK and agent.back_up(is_same=True) == OK:
            for snapshot in agent.committed:
                if wrong := agent.restore_differs(snapshot, agent.kerf):
                    agent.problem(f"{snapshot}: {wrong}")
            self.done += 1
        self.problems += agent.problems
        for folder in (agent.store, agent.tree):
            shutil.rmtree(folder, ignore_errors=True)
