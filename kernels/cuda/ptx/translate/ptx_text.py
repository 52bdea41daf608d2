"""PTX as nvcc writes it: kernels and their instructions. What is not understood is an error."""

import dataclasses
import re

_ENTRY = re.compile(r"\.visible \.entry (\w+)\($")
_PARAMETER = re.compile(r"\.param \.align \d+ \.b8 (\w+)\[(\d+)\]$")
_STATIC_SHARED = re.compile(r"\.shared \.align (\d+) \.(?:u|b)(8|16|32|64) (\w+)(?:\[(\d+)\])?;$")
_DYNAMIC_SHARED = re.compile(r"\.extern \.shared \.align \d+ \.b8 (\w+)\[\];$")
_REGISTERS = re.compile(r"\.reg \.(pred|b16|b32|b64)\s+(%\w+)<(\d+)>;$")
_LABEL = re.compile(r"(\$\w+):$")
_PREDICATE = re.compile(r"@(!?)(%p\d+)\s+(.*)$")
# They say how the text is to be compiled, and nothing about what it does.
_WITHOUT_MEANING = re.compile(r"\.(version|target|address_size|maxntid|minnctapersm|pragma)\b")


class PtxError(Exception):
    """Something that the translator does not know; says where it stands."""


@dataclasses.dataclass
class Instruction:
    line: int
    text: str
    opcode: str
    operands: list
    # None, or the register that must be true; false, where is_negated.
    predicate: str = None
    is_negated: bool = False

    @property
    def parts(self):
        return self.opcode.split(".")


@dataclasses.dataclass
class Kernel:
    name: str
    parameter: str = ""
    parameter_bytes: int = 0
    # {prefix: (class, how many)}
    registers: dict = dataclasses.field(default_factory=dict)
    body: list = dataclasses.field(default_factory=list)
    # {label: the index in `body` of what stands behind it}
    labels: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Module:
    path: str
    kernels: list = dataclasses.field(default_factory=list)
    dynamic_shared: str = ""
    # {name: bytes}
    static_shared: dict = dataclasses.field(default_factory=dict)


def split_operands(text):
    operands, depth, start = [], 0, 0
    for index, character in enumerate(text):
        depth += (character in "{[") - (character in "}]")
        if character == "," and depth == 0:
            operands.append(text[start:index].strip())
            start = index + 1
    operands.append(text[start:].strip())
    return [operand for operand in operands if operand]


def parse_instruction(text, line):
    predicate, is_negated, plain = None, False, text
    if match := _PREDICATE.match(text):
        is_negated, predicate, plain = match.group(1) == "!", match.group(2), match.group(3)
    opcode, _, operands = plain.replace("\t", " ").partition(" ")
    return Instruction(line, text, opcode, split_operands(operands), predicate, is_negated)


def _parse_module_line(module, text, fail):
    if match := _ENTRY.match(text):
        module.kernels.append(Kernel(match.group(1)))
        return True
    if match := _STATIC_SHARED.match(text):
        module.static_shared[match.group(3)] = int(match.group(2)) // 8 * int(match.group(4) or 1)
    elif match := _DYNAMIC_SHARED.match(text):
        module.dynamic_shared = match.group(1)
    elif not _WITHOUT_MEANING.match(text):
        fail(text)
    return False


def _parse_head_line(kernel, text, fail):
    if match := _PARAMETER.match(text):
        kernel.parameter, kernel.parameter_bytes = match.group(1), int(match.group(2))
    elif text not in (")", "{") and not _WITHOUT_MEANING.match(text):
        fail(text)
    return text == "{"


def _parse_body_line(kernel, text, number, fail):
    if match := _REGISTERS.match(text):
        kernel.registers[match.group(2)] = (match.group(1), int(match.group(3)))
    elif match := _LABEL.match(text):
        kernel.labels[match.group(1)] = len(kernel.body)
    elif text.endswith(";") and not text.startswith("."):
        kernel.body.append(parse_instruction(text[:-1].strip(), number))
    elif not _WITHOUT_MEANING.match(text):
        fail(text)


def parse(text, path):
    """The Module of a file's text."""
    module = Module(path)
    # Between kernels; in a kernel's head; in its body.
    state = "module"
    for number, line in enumerate(text.split("\n"), 1):
        plain = line.split("//")[0].strip()
        if not plain:
            continue

        def fail(what, number=number):
            raise PtxError(f"{path}:{number}: the translator does not know: {what}")

        if state == "module":
            state = "head" if _parse_module_line(module, plain, fail) else state
        elif state == "head":
            state = "body" if _parse_head_line(module.kernels[-1], plain, fail) else state
        elif plain == "}":
            state = "module"
        else:
            _parse_body_line(module.kernels[-1], plain, number, fail)
    if state != "module":
        raise PtxError(f"{path}: it ends within a kernel")
    for kernel in module.kernels:
        for instruction in kernel.body:
            if instruction.parts[0] == "bra" and instruction.operands[0] not in kernel.labels:
                raise PtxError(f"{path}:{instruction.line}: there is no such label: {instruction.text}")
    return module
