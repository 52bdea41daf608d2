"""What each instruction of PTX is in C++: an assignment to a local variable, or a call of the Machine
(kernels/cuda/ptx/machine.h). Forms of an opcode that are not listed here are errors."""

import re

import liveness
from ptx_text import PtxError

_C_TYPES = {"pred": "bool"} | {f"{kind}{bits}": f"{'S' if kind == 's' else 'U'}{bits}"
                               for kind in "bus" for bits in (8, 16, 32, 64)}
_SPECIAL = {"%tid.x": "t.index", "%ctaid.x": "m.block()", "%nctaid.x": "m.block_count()",
            "%ntid.x": "m.thread_count()"}
_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_LOGIC = {"and": "&", "or": "|", "xor": "^"}
_ADDRESS = re.compile(r"\[([%\w]+)(?:\+(-?\d+))?\]$")
_NUMBER = re.compile(r"-?(?:0[xX][0-9A-Fa-f]+|\d+)$")
_REGISTER = re.compile(r"%(?:p|rs|r|rd)\d+$")


def c_type(ptx_type):
    return _C_TYPES[ptx_type]


def unsigned(ptx_type):
    return "u" + ptx_type[1:]


def bits_of(ptx_type):
    return int(ptx_type[1:])


def variable(register):
    return register[1:]


class Writer:
    """Of one kernel of a module: the statement of each instruction."""

    def __init__(self, module, kernel, mutants, has_counts):
        self.module = module
        self.kernel = kernel
        # Whether it says how much it loads from the device's memory, and stores there.
        self.has_counts = has_counts
        # Of the program, or None: nothing can be changed when it runs.
        self.mutants = mutants
        # [(line, text)] of those that touch memory.
        self.sites = []
        self.forms = [(re.compile(pattern + "$"), write) for pattern, write in _FORMS]
        # Registers of vectors that are loaded at once, of which the compiler may not need each: whether one is of
        # memory that nobody has written counts when it is used. A flag q_... has it.
        self.flagged = set()
        for instruction in kernel.body:
            if _is_flagging(instruction):
                self.flagged.update(_vector(instruction.operands[0]))

    def fail(self, instruction, what="the translator does not know"):
        raise PtxError(f"{self.module.path}:{instruction.line}: {what}: {instruction.text}")

    def statement(self, instruction):
        for pattern, write in self.forms:
            if match := pattern.match(instruction.opcode):
                text = write(self, instruction, *match.groups())
                break
        else:
            self.fail(instruction)
        text = self.with_flags(instruction, text) + self.traffic(instruction)
        if instruction.predicate is None:
            return text
        negation = "!" if instruction.is_negated else ""
        return f"if ({negation}{variable(instruction.predicate)}) {{ {text} }}"

    def with_flags(self, instruction, text):
        written, read = liveness.registers_of(instruction)
        if used := sorted(read & self.flagged):
            flags = " | ".join(f"q_{variable(register)}" for register in used)
            text = f"if ({flags}) m.UseUnwritten(t, {self.site(instruction)}); {text}"
        if not _is_flagging(instruction):
            text += "".join(f" q_{variable(register)} = 0;" for register in sorted(written & self.flagged))
        return text

    def traffic(self, instruction):
        parts = instruction.parts
        if not self.has_counts or parts[0] not in ("ld", "st", "atom") or parts[1] != "global":
            return ""
        count = next((int(part[1:]) for part in parts if part in ("v2", "v4")), 1)
        size_bytes = count * bits_of(parts[-1]) // 8
        loads = f" m.Loads({size_bytes});" if parts[0] != "st" else ""
        stores = f" m.Stores({size_bytes});" if parts[0] != "ld" else ""
        return loads + stores

    def site(self, instruction):
        self.sites.append((instruction.line, instruction.text))
        return len(self.sites) - 1

    def value(self, instruction, operand, ptx_type):
        """Of an operand that is read, as that type."""
        if operand in _SPECIAL:
            return f"{c_type(ptx_type)}({_SPECIAL[operand]})"
        if _REGISTER.match(operand):
            return f"{c_type(ptx_type)}({variable(operand)})"
        if _NUMBER.match(operand):
            if ptx_type == "pred":
                return "true" if int(operand, 0) else "false"
            return f"{c_type(ptx_type)}({int(operand, 0) % (1 << 64)}ull)"
        return f"{c_type(ptx_type)}({self.symbol(instruction, operand)})"

    def symbol(self, instruction, name):
        if name == self.kernel.parameter:
            return "kParameterBase"
        if name == self.module.dynamic_shared:
            return "kSharedBase"
        if name in self.module.static_shared:
            return f"m.StaticShared({list(self.module.static_shared).index(name)})"
        return self.fail(instruction, f"'{name}' is nothing that the translator knows, in")

    def address(self, instruction, operand, ptx_type):
        match = _ADDRESS.match(operand)
        if not match:
            self.fail(instruction)
        base = self.value(instruction, match.group(1), ptx_type)
        offset = int(match.group(2) or 0)
        if offset == 0:
            return base
        return f"{c_type(ptx_type)}({base} + {c_type(ptx_type)}({offset % (1 << bits_of(ptx_type))}ull))"

    def set(self, instruction, expression):
        """Into the first operand, whose variable has a type that cuts off what does not fit."""
        target = instruction.operands[0]
        if not _REGISTER.match(target):
            self.fail(instruction)
        return f"{variable(target)} = {expression};"


def _is_flagging(instruction):
    parts = instruction.parts
    return (parts[0] == "ld" and parts[1] in ("shared", "global") and "nc" not in parts and
            not {"v2", "v4"}.isdisjoint(parts))


def _vector(operand):
    return [each.strip() for each in operand.strip("{}").split(",")]


def _arithmetic(writer, instruction, operation, ptx_type):
    _, a, b = instruction.operands
    plain = unsigned(ptx_type)
    sign = {"add": "+", "sub": "-", "mul.lo": "*"}[operation]
    # At least 32 bits: C++ multiplies two U16 as signed numbers.
    wide = plain if bits_of(plain) > 16 else "u32"
    return writer.set(instruction, f"{c_type(plain)}({writer.value(instruction, a, wide)} {sign} "
                                   f"{writer.value(instruction, b, wide)})")


def _multiply_wide(writer, instruction, ptx_type):
    _, a, b = instruction.operands
    wide = c_type(f"{ptx_type[0]}{2 * bits_of(ptx_type)}")
    return writer.set(instruction, f"{wide}({wide}({writer.value(instruction, a, ptx_type)}) * "
                                   f"{wide}({writer.value(instruction, b, ptx_type)}))")


def _multiply_add(writer, instruction, ptx_type):
    _, a, b, c = instruction.operands
    plain = unsigned(ptx_type)
    return writer.set(instruction, f"{writer.value(instruction, a, plain)} * {writer.value(instruction, b, plain)} + "
                                   f"{writer.value(instruction, c, plain)}")


def _mask_of(writer, instruction, operand, ptx_type):
    """Of a logical and: a number, or another one in the mutant that this place is."""
    number = int(operand, 0) % (1 << bits_of(ptx_type))
    # One that is all low bits loses its highest, others their lowest: what the mask is for, at any rate.
    is_low = number & (number + 1) == 0
    changed = number & ~(1 << (number.bit_length() - 1)) if is_low else number & (number - 1)
    mutant = writer.mutants.add(writer.kernel, instruction, f"{number:#x}", f"the mask {number:#x} is {changed:#x}")
    kind = c_type(ptx_type)
    return f"(m.mutant() == {mutant} ? {kind}({changed}ull) : {kind}({number}ull))"


def _logic(writer, instruction, operation, ptx_type):
    _, a, b = instruction.operands
    right = writer.value(instruction, b, ptx_type)
    if (writer.mutants is not None and operation == "and" and ptx_type != "pred" and _NUMBER.match(b)
            and int(b, 0) != 0):
        right = _mask_of(writer, instruction, b, ptx_type)
    return writer.set(instruction, f"{writer.value(instruction, a, ptx_type)} {_LOGIC[operation]} {right}")


def _not(writer, instruction, ptx_type):
    sign = "!" if ptx_type == "pred" else "~"
    return writer.set(instruction, f"{c_type(ptx_type)}({sign}{writer.value(instruction, instruction.operands[1], ptx_type)})")


def _negate(writer, instruction, ptx_type):
    plain = unsigned(ptx_type)
    return writer.set(instruction, f"{c_type(plain)}(0 - {writer.value(instruction, instruction.operands[1], plain)})")


def _call(function, types, suffix=""):
    """Form of a function of operations.h that takes operands of these types ("" is the opcode's own)."""

    def write(writer, instruction, ptx_type=None):
        operands = instruction.operands[1:]
        if len(operands) != len(types):
            writer.fail(instruction)
        values = (writer.value(instruction, operand, own or ptx_type) for operand, own in zip(operands, types))
        return writer.set(instruction, f"{function}({', '.join(values)}){suffix}")

    return write


def _compare(writer, instruction, comparison, ptx_type):
    _, a, b = instruction.operands
    return writer.set(instruction, f"{writer.value(instruction, a, ptx_type)} {_COMPARISONS[comparison]} "
                                   f"{writer.value(instruction, b, ptx_type)}")


def _select(writer, instruction, ptx_type):
    _, a, b, condition = instruction.operands
    return writer.set(instruction, f"{variable(condition)} ? {writer.value(instruction, a, ptx_type)} : "
                                   f"{writer.value(instruction, b, ptx_type)}")


def _move(writer, instruction, ptx_type):
    return writer.set(instruction, writer.value(instruction, instruction.operands[1], ptx_type))


def _convert(writer, instruction, to_type, from_type):
    value = writer.value(instruction, instruction.operands[1], from_type)
    return writer.set(instruction, f"{c_type(to_type)}({value})")


def _load_parameter(writer, instruction, width, ptx_type):
    targets = _vector(instruction.operands[0])
    return _take(writer, instruction, targets, ptx_type, width,
                 f"m.LoadParameter<{c_type(ptx_type)}, {len(targets)}>(t, "
                 f"{writer.address(instruction, instruction.operands[1], 'u64')}, {writer.site(instruction)})")


def _take(writer, instruction, targets, ptx_type, width, call):
    if len(targets) != int((width or "v1")[1:]):
        writer.fail(instruction)
    moves = " ".join(f"{variable(target)} = v[{index}];" for index, target in enumerate(targets))
    if _is_flagging(instruction):
        moves += "".join(f" q_{variable(target)} = m.IsUnwritten({index});" for index, target in enumerate(targets))
    return f"{{ const auto v = {call}; {moves} }}"


def _load_global(writer, instruction, is_read_only, width, ptx_type):
    targets = _vector(instruction.operands[0])
    function = "LoadReadOnly" if is_read_only else "LoadGlobal"
    return _take(writer, instruction, targets, ptx_type, width,
                 f"m.{function}<{c_type(ptx_type)}, {len(targets)}>(t, "
                 f"{writer.address(instruction, instruction.operands[1], 'u64')}, {writer.site(instruction)})")


def _load_shared(writer, instruction, width, ptx_type):
    targets = _vector(instruction.operands[0])
    return _take(writer, instruction, targets, ptx_type, width,
                 f"m.LoadShared<{c_type(ptx_type)}, {len(targets)}>(t, "
                 f"{writer.address(instruction, instruction.operands[1], 'u32')}, {writer.site(instruction)})")


def _store(writer, instruction, space, width, ptx_type):
    sources = _vector(instruction.operands[1])
    if len(sources) != int((width or "v1")[1:]):
        writer.fail(instruction)
    address = writer.address(instruction, instruction.operands[0], "u64" if space == "global" else "u32")
    values = ", ".join(writer.value(instruction, source, ptx_type) for source in sources)
    return (f"m.Store{space.capitalize()}<{c_type(ptx_type)}, {len(sources)}>(t, {address}, {{{values}}}, "
            f"{writer.site(instruction)});")


def _atomic(writer, instruction, space, operation):
    target, place, value = instruction.operands
    address = writer.address(instruction, place, "u64" if space == "global" else "u32")
    return (f"{variable(target)} = m.Atomic{space.capitalize()}(t, {address}, Atomic::k{operation.capitalize()}, "
            f"{writer.value(instruction, value, 'u32')}, {writer.site(instruction)});")


def _fence(writer, _instruction):
    del writer
    return "m.Fence(t);"


_WHOLE = r"([us](?:16|32|64))"
_FORMS = [
    (r"(add|sub)\." + _WHOLE, _arithmetic),
    (r"(mul\.lo)\." + _WHOLE, _arithmetic),
    (r"mul\.wide\.([us](?:16|32))", _multiply_wide),
    (r"mad\.lo\.([us](?:32|64))", _multiply_add),
    (r"(and|or|xor)\.(pred|b16|b32|b64)", _logic),
    (r"not\.(pred|b16|b32|b64)", _not),
    (r"neg\.(s32|s64)", _negate),
    (r"shl\.(b16|b32|b64)", _call("ShiftLeft", ("", "u32"))),
    (r"shr\.([us](?:16|32|64))", _call("ShiftRight", ("", "u32"))),
    (r"shf\.l\.wrap\.b32", _call("FunnelLeft", ("u32", "u32", "u32"))),
    (r"shf\.r\.wrap\.b32", _call("FunnelRight", ("u32", "u32", "u32"))),
    (r"prmt\.b32", _call("Permute", ("u32", "u32", "u32"))),
    (r"min\.([us](?:32|64))", _call("std::min", ("", ""))),
    (r"max\.([us](?:32|64))", _call("std::max", ("", ""))),
    (r"popc\.b32", _call("PopCount", ("u32",))),
    (r"clz\.b32", _call("LeadingZeros", ("u32",))),
    (r"brev\.b32", _call("ReverseBits", ("u32",))),
    (r"bfind\.shiftamt\.u32", _call("ShiftToHighest", ("u32",))),
    (r"bfi\.b32", _call("InsertBits", ("u32", "u32", "u32", "u32"))),
    (r"setp\.(eq|ne|lt|le|gt|ge)\.([usb](?:16|32|64))", _compare),
    (r"selp\.([usb](?:16|32|64))", _select),
    (r"mov\.(pred|[usb](?:16|32|64))", _move),
    (r"cvt\.(u16|u32|u64)\.(u8|u16|u32|u64)", _convert),
    (r"cvta\.to\.global\.(u64)", _move),
    (r"ld\.param\.(?:(v[24])\.)?([u](?:8|16|32|64))", _load_parameter),
    (r"ld\.global\.(nc\.)?(?:L2::128B\.)?(?:(v[24])\.)?(u(?:8|16|32|64))", _load_global),
    (r"ld\.shared\.(?:(v[24])\.)?(u(?:8|16|32|64))", _load_shared),
    (r"st\.(global|shared)\.(?:(v[24])\.)?(u(?:8|16|32|64))", _store),
    (r"atom\.(global|shared)\.(add|min|max|inc)\.u32", _atomic),
    (r"atom\.(global|shared)\.(or)\.b32", _atomic),
    (r"membar\.gl", _fence),
]


def _divide(writer, instruction):
    _, a, b = instruction.operands
    return writer.set(instruction, f"m.Divide(t, {writer.value(instruction, a, 'u32')}, "
                                   f"{writer.value(instruction, b, 'u32')}, {writer.site(instruction)})")


_FORMS.append((r"div\.u32", _divide))
