"""What a snapshot must bring back, and whether it did."""

import manifest
from runs import Wrong

SAID_DIFFERENCES = 6


class Snapshot:
    """`states` are manifests of the tree while the backup ran: one if nobody edited it. `touched` are paths that were
    edited meanwhile (all below is), `folders` those of which the own entry was, `warned` those that it warned of; `moved`
    says that folders went elsewhere meanwhile."""

    def __init__(self, name, states, warned, editor=None):
        self.name, self.states, self.warned = name, states, set(warned)
        self.touched = set(editor.touched) if editor else set()
        self.folders = set(editor.folders) if editor else set()
        self.moved = editor is not None and editor.moved

    def __str__(self):
        return f"snapshot {self.name}"

    def problems(self, restored, excused):
        """Texts; `excused` are paths of which the restore has warned."""
        before = self.states[0]
        excused = excused | self.warned
        # What is said of one name of a file holds for all of them.
        links = {before[path].link for path in excused if path in before} - {None}
        excused |= {path for path, node in before.items() if node.link in links}
        alone = {path for path in self.folders if not manifest.is_below_any(path, self.touched)}
        still = {path: before[path] for path in before.keys() - alone}
        # A folder stays where something in it could not be removed, which is said of that.
        kept = {path for path in restored.keys() - before.keys() if any(other.startswith(path + b"/") for other in excused)}
        now = {path: restored[path] for path in restored.keys() - alone - kept}
        found = manifest.differences(still, now, excused | self.touched)
        if b"" in excused:
            return found
        for path in sorted(restored):
            if manifest.is_below_any(path, self.touched) and not manifest.is_below_any(path, excused):
                found += self._never_so(path, restored[path])
        return found

    def rest(self, restored, warned, has_gaps):
        """(texts, paths that are not there) of a restore that has told of damage. What is there must be right. With gaps in
        the list of files, nobody knows what stood there: folders are made up, and rights are withheld."""
        before = self.states[0]
        excused = self.warned | self.touched | self.folders
        lost = {path for path in before.keys() - restored.keys() | warned & before.keys()
                if not manifest.is_below_any(path, excused)}
        if not has_gaps:
            return self.problems(restored, warned), lost
        found = []
        for path in sorted(restored):
            if manifest.is_below_any(path, excused):
                continue
            keys = ("kind", "content", "target")
            if path not in before:
                found.append(f"{path!r}: is new")
            elif [restored[path].what.get(key) for key in keys] != [before[path].what.get(key) for key in keys]:
                found.append(f"{path!r}: holds what it never held: {restored[path]} was {before[path]}")
        return found, lost

    def _never_so(self, path, node):
        """What was edited is as it was at one time or another. Who is in a folder that is moved finds there what has
        another path by now."""
        keys = ("kind", "content", "target", "device")
        nodes = [node for state in self.states for name, node in state.items() if self.moved or name == path]
        seen = [[node.what.get(key) for key in keys] for node in nodes]
        now = [node.what.get(key) for key in keys]
        if now in seen:
            return []
        return [f"{path!r}: holds what it never held, with no warning: {now} is none of {seen[:4]}"]


def hold(what, problems):
    if problems:
        rest = f" (and {len(problems) - SAID_DIFFERENCES} more)" if len(problems) > SAID_DIFFERENCES else ""
        raise Wrong(f"{what}: " + "; ".join(problems[:SAID_DIFFERENCES]) + rest)
