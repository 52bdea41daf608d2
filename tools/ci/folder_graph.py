#!/usr/bin/env python3
"""Which folder needs which, from the code: no circles, and a drawing that is current.

tools/ci/folder_graph.py --check       fails on a circle, and where the drawing in docs/architecture.md is old
tools/ci/folder_graph.py --draw        writes the drawing there anew (or into --draw FILE)
tools/ci/folder_graph.py --arrows      prints every arrow with an example

Folder A has an arrow to folder B if a source of A includes a header of B, and target A has one to
target B if it names it in its deps. Tests do not count: what Bazel calls a test, what is testonly, and
what its name says is for tests. A folder that holds other folders is often two things at once, what
they are made of and what is made of them (kernels/profile.h, kernels/registry.h): there each file, with
its header, and each target stands for itself. What needs each other within one folder is no circle.
"""

import argparse
import ast
import pathlib
import re
import subprocess
import sys

# In the order in which data flows; the parts of a drawing are in it, too.
PARTS = ["base", "proto", "kernels", "server", "client", "e2e"]
SOURCE_SUFFIXES = {".h", ".cc", ".cu", ".cuh"}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
TEST_NAME = re.compile(r"(^|_)(test|testing|fuzz)\.\w+$")
# What protoc writes is in no folder of its own.
GENERATED = re.compile(r"^kerf/v1/.*\.pb\.h$|^google/.*\.pb\.h$")
DRAWING_FILE = "docs/architecture.md"
BEGIN = "<!-- Written by tools/ci/folder_graph.py --draw -->"
END = "<!-- End of what tools/ci/folder_graph.py writes -->"


class Target:
    """One rule of a BUILD file."""

    def __init__(self, package, kind, name, sources, deps, is_test):
        self.package = package
        self.kind = kind
        self.name = name
        self.sources = sources
        self.deps = deps
        self.is_test = is_test


def tracked_files(root):
    output = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root, check=True, capture_output=True).stdout
    names = [name for name in output.decode().split("\0") if name]
    return sorted(name for name in set(names)
                  if name.split("/")[0] in PARTS and (root / name).is_file())


def folder_of(name):
    return name.rpartition("/")[0]


def strings_in(node):
    return [child.value for child in ast.walk(node)
            if isinstance(child, ast.Constant) and isinstance(child.value, str)]


def is_true(node):
    return isinstance(node, ast.Constant) and bool(node.value)


def targets_of(package, text):
    """The rules of a BUILD file, which is Python as far as its syntax goes."""
    are_tests = False
    for call in ast.walk(ast.parse(text)):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            continue
        attributes = {keyword.arg: keyword.value for keyword in call.keywords}
        if call.func.id == "package":
            are_tests = is_true(attributes.get("default_testonly"))
        if "name" not in attributes or not {"srcs", "hdrs", "deps"} & attributes.keys():
            continue
        kind = call.func.id
        name = (strings_in(attributes["name"]) or ["?"])[0]
        sources = [source for key in ("srcs", "hdrs") if key in attributes
                   for source in strings_in(attributes[key])]
        deps = strings_in(attributes["deps"]) if "deps" in attributes else []
        is_test = are_tests or kind.endswith("_test") or is_true(attributes.get("testonly"))
        yield Target(package, kind, name, sources, deps, is_test)


def is_for_tests(name, real_sources, test_sources):
    if name in real_sources:
        return False
    return name in test_sources or "/testing/" in name or bool(TEST_NAME.search(name))


class Tree:
    """What the folders of a repository hold."""

    def __init__(self, root):
        self.root = root
        self.files = tracked_files(root)
        self.sources = [name for name in self.files
                        if pathlib.PurePath(name).suffix in SOURCE_SUFFIXES]
        self.targets = []
        for name in self.files:
            if pathlib.PurePath(name).name == "BUILD":
                text = (root / name).read_text(encoding="utf-8")
                self.targets.extend(targets_of(folder_of(name), text))
        real, test = set(), set()
        for target in self.targets:
            (test if target.is_test else real).update(
                f"{target.package}/{source}" for source in target.sources)
        self.tested = [name for name in self.sources if not is_for_tests(name, real, test)]
        folders = {folder_of(name) for name in self.tested}
        # Those that hold other folders.
        self.parents = {folder for folder in folders
                        if any(other.startswith(folder + "/") for other in folders)}

    def includes(self):
        """Pairs of a source and what it includes of other sources; those of tests are left out."""
        known = set(self.sources)
        for name in self.tested:
            text = (self.root / name).read_text(encoding="utf-8")
            for included in INCLUDE.findall(text):
                if included in known:
                    yield name, included
                elif GENERATED.match(included):
                    yield name, "proto/" + included

    def node_of_file(self, name):
        folder = folder_of(name)
        return name.rpartition(".")[0] + ".*" if folder in self.parents else folder

    def node_of_target(self, package, name):
        return f"{package}:{name}" if package in self.parents else package


def home_of(node):
    """The folder of a node: of a file, of a target, or the folder that it is."""
    if node.endswith(".*"):
        return folder_of(node)
    return node.partition(":")[0]


def include_arrows(tree):
    """{(from, to): an example} between the folders of sources."""
    arrows = {}
    for name, included in tree.includes():
        pair = (tree.node_of_file(name), tree.node_of_file(included))
        if pair[0] != pair[1] and not included.startswith("proto/kerf/"):
            arrows.setdefault(pair, f'{name} includes "{included}"')
    return arrows


def resolve(package, label):
    """The package and the name of a label of this repository, or None."""
    if label.startswith("@"):
        return None
    if label.startswith("//"):
        path, _, name = label[2:].partition(":")
        return path, name or path.rpartition("/")[2]
    return package, label.lstrip(":")


def dependency_arrows(tree):
    """{(from, to): an example} between packages."""
    arrows = {}
    for target in tree.targets:
        if target.is_test:
            continue
        for label in target.deps:
            found = resolve(target.package, label)
            if found is None or found[0].split("/")[0] not in PARTS:
                continue
            pair = (tree.node_of_target(target.package, target.name), tree.node_of_target(*found))
            if pair[0] != pair[1]:
                arrows.setdefault(pair, f"//{target.package}:{target.name} depends on {label}")
    return arrows


def neighbours(arrows):
    following = {}
    for start, end in arrows:
        following.setdefault(start, []).append(end)
        following.setdefault(end, [])
    return {node: sorted(ends) for node, ends in sorted(following.items())}


def reachable(following, start):
    """All that can be reached from `start` with one arrow or more."""
    seen = set()
    open_nodes = list(following.get(start, []))
    while open_nodes:
        node = open_nodes.pop()
        if node not in seen:
            seen.add(node)
            open_nodes.extend(following.get(node, []))
    return seen


def shortest_way(following, start, goal):
    """The nodes from `start` to `goal`, both included; there is a way."""
    came_from = {start: None}
    queue = [start]
    for node in queue:
        if node == goal:
            break
        for end in following[node]:
            if end not in came_from:
                came_from[end] = node
                queue.append(end)
    way = [goal]
    while came_from[way[-1]] is not None:
        way.append(came_from[way[-1]])
    return way[::-1]


def circles(arrows):
    """One circle of several folders, as the list of its nodes, for each knot of nodes that reach each
    other."""
    following = neighbours(arrows)
    reached = {node: reachable(following, node) for node in following}
    told = set()
    for start, end in sorted(arrows):
        if start in told or start not in reached[end] or home_of(start) == home_of(end):
            continue
        told.update(other for other in reached[start] if start in reached[other])
        yield [start] + shortest_way(following, end, start)[:-1]


def circle_findings(arrows):
    for circle in circles(arrows):
        pairs = list(zip(circle, circle[1:] + circle[:1]))
        examples = "; ".join(arrows[pair] for pair in pairs)
        yield f"{' -> '.join(circle + circle[:1])}: a circle of folders: {examples}"


def reduced(arrows):
    """Those arrows that say what no longer way says; of nodes without circles."""
    following = neighbours(arrows)
    return sorted((start, end) for start, end in arrows
                  if not any(end in reachable(following, other) for other in following[start]
                             if other != end))


def drawn(node):
    """The box of a folder: two levels are drawn."""
    return "/".join(node.split("/")[:2])


def box_arrows(tree):
    """Between the boxes. A folder that holds others has no box of its own: its box is their frame."""
    boxes = {}
    for name, included in tree.includes():
        ends = []
        for file in (name, included):
            folder = folder_of(file)
            ends.append(None if folder in tree.parents and "/" not in folder else drawn(folder))
        if ends[0] is not None and ends[1] is not None and ends[0] != ends[1]:
            boxes.setdefault((ends[0], ends[1]), name)
    return boxes


def identifier(box):
    return re.sub(r"\W", "_", box)


def draw(tree):
    """A drawing in Mermaid, which code hosts show as a picture: a frame for each part, its folders in
    it with their arrows among each other, and arrows between parts."""
    boxes = box_arrows(tree)
    folders = {drawn(folder_of(name)) for name in tree.tested if "/" in folder_of(name)}
    lines = ["```mermaid", "flowchart TB"]
    between = {}
    for name, included in tree.includes():
        pair = (name.split("/")[0], included.split("/")[0])
        if pair[0] != pair[1]:
            between.setdefault(pair, name)
    drawn_parts = {name.split("/")[0] for name in tree.tested}.union(*between)
    parts = [part for part in PARTS if part in drawn_parts]
    for part in reversed(parts):
        inside = sorted(folder for folder in folders if folder.startswith(part + "/"))
        if not inside:
            lines.append(f"  {identifier(part)}[{part}]")
            continue
        lines.append(f"  subgraph {identifier(part)}[{part}]")
        lines.extend(f"    {identifier(folder)}[{folder.partition('/')[2]}]" for folder in inside)
        own = {pair: name for pair, name in boxes.items()
               if pair[0].startswith(part + "/") and pair[1].startswith(part + "/")}
        lines.extend(f"    {identifier(start)} --> {identifier(end)}" for start, end in reduced(own))
        lines.append("  end")
    lines.extend(f"  {identifier(start)} ==> {identifier(end)}" for start, end in reduced(between))
    lines.append("```")
    return "\n".join(lines)


def with_drawing(text, drawing):
    """The text with that drawing in the place of the one it has, or None if it has no place for one."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        return None
    return f"{before}{BEGIN}\n{drawing}\n{END}{after}"


def drawing_findings(root, tree):
    path = root / DRAWING_FILE
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    new = with_drawing(text, draw(tree))
    if new is None:
        yield f"{DRAWING_FILE}: no place for the drawing of the folders: {BEGIN} ... {END}"
    elif new != text:
        yield f"{DRAWING_FILE}: the drawing of the folders is old: tools/ci/folder_graph.py --draw"


def findings(root):
    tree = Tree(pathlib.Path(root))
    found = list(circle_findings(include_arrows(tree)))
    found.extend(circle_findings(dependency_arrows(tree)))
    # What has circles cannot be drawn.
    return found or list(drawing_findings(pathlib.Path(root), tree))


def write_drawing(root, file):
    path = root / DRAWING_FILE if file == DRAWING_FILE else pathlib.Path(file)
    drawing = draw(Tree(root))
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    new = with_drawing(text, drawing)
    path.write_text(drawing + "\n" if new is None else new, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--check", action="store_true")
    what.add_argument("--draw", nargs="?", const=DRAWING_FILE, metavar="FILE")
    what.add_argument("--arrows", action="store_true")
    arguments = parser.parse_args()
    root = pathlib.Path(__file__).resolve().parents[2]
    if arguments.draw:
        write_drawing(root, arguments.draw)
        return 0
    if arguments.arrows:
        tree = Tree(root)
        for pair, example in sorted({**dependency_arrows(tree), **include_arrows(tree)}.items()):
            print(f"{pair[0]} -> {pair[1]}: {example}")
        return 0
    found = findings(root)
    for finding in found:
        print(finding)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
