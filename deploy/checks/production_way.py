"""The way for production, as the READMEs write it: their commands are read out of them and run, and what they make is kept."""

import dataclasses
import json
import os
import pathlib
import re
import subprocess
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[2]
ON_KUBERNETES = (ROOT / "deploy/README.md", "## For real")
OVER_A_NETWORK = (ROOT / "README.md", "Over a network, from a laptop to a server")
PATIENCE_S = 60

# What stands in for kubectl, ssh and scp: keeps what it is told, and refuses what this test does not know of.
_KUBECTL = """\
import json, pathlib, sys
folder, words = pathlib.Path(sys.argv[1]), sys.argv[2:]
namespace = ""
if words[:1] == ["-n"]:
    namespace, words = words[1], words[2:]
if words[:2] == ["create", "namespace"]:
    told = {"namespace": words[2]}
elif words[:3] == ["create", "secret", "generic"]:
    data = {}
    for word in words[4:]:
        flag, key, path = word.split("=", 2)
        if flag != "--from-file":
            sys.exit(f"kubectl: {word}?")
        data[key] = pathlib.Path(path).read_bytes().hex()
    told = {"secret": words[3], "in": namespace, "data": data}
elif words[:2] == ["apply", "-k"]:
    told = {"apply": words[2]}
else:
    sys.exit(f"kubectl: this test knows nothing of '{' '.join(words)}'")
with open(folder / "told", "a", encoding="utf-8") as file:
    file.write(json.dumps(told) + "\\n")
"""
# The other machine is the home folder of this one. It has what ssh makes there alone, as scp makes no folders.
_SSH = """\
import os, sys
os.chdir(os.environ["HOME"])
os.execvp("sh", ["sh", "-c", " ".join(sys.argv[3:])])
"""
_SCP = """\
import os, pathlib, shutil, sys
*sources, target = sys.argv[2:]
place = pathlib.Path(os.environ["HOME"]) / target.partition(":")[2]
if not place.is_dir():
    sys.exit(f"scp: {place}: no such folder")
for source in sources:
    shutil.copy(source, place)
"""


class Unknown(Exception):
    """The README does not say what this test looks for."""


def section(text, heading):
    """From the line that begins with `heading` to the next heading."""
    lines = text.split("\n")
    begin = next((number for number, line in enumerate(lines) if line.startswith(heading)), None)
    if begin is None:
        raise Unknown(f"there is no '{heading}'")
    end = next((number for number in range(begin + 1, len(lines)) if re.match(r"#+ ", lines[number])), len(lines))
    return "\n".join(lines[begin:end])


def commands(text):
    """The indented lines, as one script, and behind them what is a command by itself in the middle of a sentence."""
    blocks = re.findall(r"(?:^(?: {4,}\S.*)?\n)+", text + "\n", re.M)
    script = "".join(textwrap.dedent(block).strip("\n") + "\n" for block in blocks if block.strip())
    return script + "".join(f"{command}\n" for command in re.findall(r"^\d\. `(kubectl [^`]+)`", text, re.M))


def of(place):
    """The commands that a README has behind a heading, or a line, of its own."""
    path, heading = place
    return commands(section(path.read_text(encoding="utf-8"), heading))


def install(programs, tools):
    """The stand-ins, and these programs under their names, in a folder for PATH. What kubectl is told is beside it."""
    tools.mkdir()
    for name, text in (("kubectl", _KUBECTL), ("ssh", _SSH), ("scp", _SCP)):
        (tools / f"{name}.py").write_text(text, encoding="utf-8")
        (tools / name).write_text(f'#!/bin/sh\nexec /usr/bin/python3 -BI "${{0%/*}}/{name}.py" "${{0%/*}}/.." "$@"\n', encoding="utf-8")
        (tools / name).chmod(0o755)
    for name, path in programs.items():
        (tools / name).symlink_to(path)
    return tools


@dataclasses.dataclass
class Made:
    """What the way on Kubernetes has left behind it."""

    folder: pathlib.Path
    secrets: dict
    applied: list
    namespaces: list


def walk(script, folder, kerf):
    """Runs the commands of the way on Kubernetes in `folder`, which is empty."""
    tools = folder / "bin"
    install({"kerf": kerf}, tools)
    work = folder / "work"
    work.mkdir()
    done = subprocess.run(["/bin/bash", "-euo", "pipefail", "-c", script], cwd=work, capture_output=True, text=True, check=False,
                          timeout=PATIENCE_S, env={"PATH": f"{tools}:{os.environ['PATH']}", "HOME": str(work)})
    if done.returncode != 0:
        raise Unknown(f"its commands fail: {done.stderr.strip()}")
    told = [json.loads(line) for line in (folder / "told").read_text(encoding="utf-8").splitlines()]
    return Made(work, {one["secret"]: {key: bytes.fromhex(value) for key, value in one["data"].items()}
                       for one in told if "secret" in one},
                [one["apply"] for one in told if "apply" in one],
                [one["namespace"] for one in told if "namespace" in one])
