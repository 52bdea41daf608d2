#!/usr/bin/env python3
"""Holds the machine code of the CUDA kernels to kernels/cuda/sass_limits.txt.

tools/gpu/sass.py LIMITS OBJECT...: cuobjdump and nvdisasm are on PATH. Prints what each kernel has, then
what is wrong, and fails if anything is.
"""

import re
import subprocess
import sys

FUNCTION = re.compile(r"^\s*Function\s*:\s*(\S+)")
ARCHITECTURE = re.compile(r"^arch = (\S+)")
INSTRUCTION = re.compile(r"^\s+/\*([0-9a-f]{4,})\*/\s+(?:@!?(U?P\d+|U?PT)\s+)?(\S+)\s*(.*?)\s*;")
USAGE = re.compile(r"REG:(\d+) STACK:(\d+) SHARED:\d+ LOCAL:(\d+)")
KERNEL = re.compile(r"RunTiles<(.*?)\s*>\(")
INSTRUCTION_BYTES = 16
# What the limits are about. Of the others of bazel/cuda.bzl only the kernels must be there: what few
# registers more, or a spill outside of a loop, cost them nobody has measured.
LIMITED = ("sm_80", "sm_90")
OTHERS = ("sm_75", "sm_100", "sm_120")


class Instruction:
    def __init__(self, address, is_conditional, opcode, operands):
        self.address = address
        self.is_conditional = is_conditional
        self.opcode = opcode.split(".")[0]
        target = re.search(r"0x([0-9a-f]+)\)?$", operands)
        self.target = None
        if self.opcode in ("BRA", "CALL", "JMP") and target:
            self.target = int(target.group(1), 16)

    def successors(self):
        after = self.address + INSTRUCTION_BYTES
        if self.opcode in ("EXIT", "RET", "BRX") and not self.is_conditional:
            return []
        if self.target is None:
            return [after]
        if self.opcode in ("BRA", "JMP") and not self.is_conditional:
            return [self.target]
        return [after, self.target]


def parse_code(text):
    """{(architecture, mangled name): [Instruction]} of `cuobjdump -sass`."""
    functions = {}
    architecture = code = None
    for line in text.split("\n"):
        if match := ARCHITECTURE.match(line):
            architecture = match.group(1)
        elif match := FUNCTION.match(line):
            code = functions.setdefault((architecture, match.group(1)), [])
        elif code is not None and (match := INSTRUCTION.match(line)):
            address, condition, opcode, operands = match.groups()
            code.append(Instruction(int(address, 16), condition is not None, opcode, operands))
    return functions


def parse_usage(text):
    """{(architecture, mangled name): (registers, bytes of stack and local memory)} of
    `cuobjdump -res-usage`."""
    usage = {}
    architecture = name = None
    for line in text.split("\n"):
        if match := ARCHITECTURE.match(line):
            architecture = match.group(1)
        elif line.strip().startswith("Function "):
            name = line.strip()[len("Function "):].rstrip(":")
        elif name and (match := USAGE.search(line)):
            registers, stack, local = map(int, match.groups())
            usage[architecture, name] = (registers, stack + local)
            name = None
    return usage


def dominators(starts, successors):
    """{block: the blocks on every way to it}, `starts[0]` being the entry."""
    everything = set(starts)
    result = {start: everything for start in starts}
    result[starts[0]] = {starts[0]}
    predecessors = {start: [] for start in starts}
    for start in starts:
        for successor in successors[start]:
            predecessors[successor].append(start)
    is_changed = True
    while is_changed:
        is_changed = False
        for start in starts[1:]:
            ways = [result[predecessor] for predecessor in predecessors[start]]
            new = {start}.union(set.intersection(*ways) if ways else set())
            if new != result[start]:
                result[start] = new
                is_changed = True
    return result, predecessors


def loop_sizes(code):
    """The instructions of each loop that has no loop in it, by the loop's first address."""
    by_address = {instruction.address: instruction for instruction in code}
    leaders = {code[0].address}
    for instruction in code:
        after = instruction.successors()
        if after != [instruction.address + INSTRUCTION_BYTES]:
            leaders.update(after)
            leaders.add(instruction.address + INSTRUCTION_BYTES)
    starts = sorted(leaders & by_address.keys())
    size, successors = {}, {}
    for start, end in zip(starts, starts[1:] + [code[-1].address + INSTRUCTION_BYTES]):
        size[start] = (end - start) // INSTRUCTION_BYTES
        last = by_address[end - INSTRUCTION_BYTES]
        successors[start] = [next_ for next_ in last.successors() if next_ in by_address]
    dominating, predecessors = dominators(starts, successors)
    loops = {}
    for start in starts:
        for head in successors[start]:
            if head not in dominating[start]:
                continue
            body = loops.setdefault(head, {head})
            open_ = [start]
            while open_:
                block = open_.pop()
                if block not in body:
                    body.add(block)
                    open_.extend(predecessors[block])
    # A kernel ends in a branch to itself, which nothing reaches.
    return {head: sum(size[block] for block in body) for head, body in loops.items()
            if not any(other in body for other in loops if other != head)
            and not (len(body) == 1 and size[head] == 1)}


def parse_limits(text):
    """{kernel: (registers, bytes of a turn of the loop or None, instructions for a byte)}."""
    limits = {}
    for line in text.split("\n"):
        if not line.strip() or line.startswith("#"):
            continue
        registers, loop_bytes, instructions, kernel = line.split(None, 3)
        if kernel in limits:
            raise ValueError(f"{kernel} has two lines")
        loop = (None, None) if loop_bytes == "-" else (int(loop_bytes), float(instructions))
        limits[kernel] = (int(registers), *loop)
    return limits


def check(kernel, architecture, code, usage, limits):
    """(what it has, [what is wrong]) of one kernel on one architecture."""
    max_registers, loop_bytes, max_instructions = limits
    registers, memory_bytes = usage
    wrong = []
    if registers > max_registers:
        wrong.append(f"{registers} registers, {max_registers} are allowed")
    if memory_bytes > 0:
        wrong.append(f"{memory_bytes} bytes of stack or local memory, none is allowed")
    local = [each for each in code if each.opcode in ("LDL", "STL")]
    if local:
        wrong.append(f"{len(local)} accesses to local memory (spills, or an array whose index the "
                     f"compiler does not know), the first at {local[0].address:#x}")
    has = f"{registers:4} registers"
    if loop_bytes is not None:
        size = max(loop_sizes(code).values(), default=0)
        has += f", loop of {size} instructions, {size / loop_bytes:.2f} a byte"
        if size == 0:
            wrong.append("it has no loop")
        if size / loop_bytes > max_instructions:
            wrong.append(f"{size / loop_bytes:.2f} instructions a byte in its loop, "
                         f"{max_instructions:g} are allowed")
    return (f"{architecture} {has}: {kernel}",
            [f"{kernel} for {architecture}: {each}" for each in wrong])


def run(*command, text=None):
    return subprocess.run(command, input=text, check=True, capture_output=True, text=True).stdout


def kernel_names(mangled):
    """{mangled: as in the limits}, of what launch.cuh makes."""
    demangled = run("c++filt", text="\n".join(mangled)).replace("kerf::cuda::", "").split("\n")
    names = {}
    for name, plain in zip(mangled, demangled):
        if match := KERNEL.search(plain):
            names[name] = match.group(1)
    return names


def main():
    limits_path, objects = sys.argv[1], sys.argv[2:]
    with open(limits_path, encoding="utf-8") as file:
        limits = parse_limits(file.read())
    code, usage = {}, {}
    for path in objects:
        code.update(parse_code(run("cuobjdump", "-sass", path)))
        usage.update(parse_usage(run("cuobjdump", "-res-usage", path)))
    names = kernel_names(sorted({name for _, name in code}))
    wrong = []
    for (architecture, name), instructions in sorted(code.items(), key=lambda item: item[0][::-1]):
        kernel = names.get(name)
        if kernel in limits and architecture in OTHERS:
            continue
        if kernel is None:
            wrong.append(f"{name} is none that launch.cuh made")
        elif kernel not in limits:
            wrong.append(f"{kernel} has no line in {limits_path}")
        else:
            has, found = check(kernel, architecture, instructions, usage[architecture, name],
                               limits[kernel])
            print(has)
            wrong += found
    for kernel in limits:
        for architecture in LIMITED + OTHERS:
            if not any(names.get(name) == kernel for arch, name in code if arch == architecture):
                wrong.append(f"{kernel} of {limits_path} was not compiled for {architecture}")
    for each in wrong:
        print(f"tools/sass: {each}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
