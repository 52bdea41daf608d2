#!/usr/bin/env python3
"""Makes C++ of a file of PTX: a function for each kernel that runs one thread to its next barrier.

translate.py [--mutants | --counts] PTX SYMBOL CPP: SYMBOL is the ModuleKernels of kernels/cuda/ptx/kernels.h
that CPP defines. With --mutants each barrier can be left out, and each mask changed, when it runs; with --counts
it says which instructions it comes to (kernels/cuda/ptx/warp_counter.h).
"""

import sys

import cpp_operations
import liveness
import ptx_text

_HEAD = """// Made by kernels/cuda/ptx/translate/translate.py.
#include <algorithm>
#include <array>

#include "kernels/cuda/ptx/kernels.h"
#include "kernels/cuda/ptx/machine.h"
#include "kernels/cuda/ptx/operations.h"

namespace kerf::cuda::ptx {
namespace {
"""


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\t", " ") + '"'


class Mutants:
    """What can be changed in a module, numbered from 1."""

    def __init__(self):
        # (kernel, line, kind, which one of that kind in the kernel, what): a kind is "barrier", or a mask.
        self.all = []
        # {(kernel, kind): how many}
        self.counts = {}

    def add(self, kernel, instruction, kind, what):
        place = self.counts.get((kernel.name, kind), 0) + 1
        self.counts[kernel.name, kind] = place
        self.all.append((kernel.name, instruction.line, kind, place, what))
        return len(self.all)

    def rows(self):
        for name, line, kind, place, what in self.all:
            yield f"  {{{quoted(name)}, {line}, {quoted(kind)}, {place}, {self.counts[name, kind]}, {quoted(what)}}},\n"


class KernelText:
    """The C++ of one kernel."""

    def __init__(self, module, number, mutants, has_counts):
        self.kernel = module.kernels[number]
        self.number = number
        self.mutants = mutants
        self.writer = cpp_operations.Writer(module, self.kernel, mutants, has_counts)
        # {the index of its first instruction: (its number, its instructions)}
        self.blocks = self.counted_blocks() if has_counts else {}
        self.live = liveness.live_behind_barriers(self.kernel)
        self.barriers = {index: place for place, index in enumerate(sorted(self.live), 1)}
        # By the index of what stands behind them.
        self.labels = {}
        for label, index in self.kernel.labels.items():
            self.labels.setdefault(index, []).append(label)

    def counted_blocks(self):
        """As above. A barrier ends one: its thread goes on when all others have come there."""
        ends = []
        for start, end in liveness.blocks_of(self.kernel):
            ends += [index + 1 for index in range(start, end - 1) if self.kernel.body[index].parts[0] == "bar"]
            ends.append(end)
        return {start: (number, end - start) for number, (start, end) in enumerate(zip([0, *ends], ends))}

    def kept_words(self):
        return max(map(len, self.live.values()), default=0)

    def declarations(self):
        used = set()
        for instruction in self.kernel.body:
            used.update(*liveness.registers_of(instruction))
        for prefix, (kind, count) in self.kernel.registers.items():
            names = [f"{prefix[1:]}{number}" for number in range(count) if f"{prefix}{number}" in used]
            if names:
                yield f"  {cpp_operations.c_type(kind)} {', '.join(names)};\n"
        for register in sorted(self.writer.flagged):
            yield f"  U8 q_{register[1:]} = 0;\n"

    def resumptions(self):
        yield "  switch (t.resume_at) {\n    default: break;\n"
        for index, place in self.barriers.items():
            restored = " ".join(
                f"{register[1:]} = static_cast<decltype({register[1:]})>(t.kept[{slot}]);"
                for slot, register in enumerate(self.live[index]))
            yield f"    case {place}: {restored} goto bar_{place};\n"
        yield "  }\n"

    def barrier(self, index, instruction):
        if instruction.operands != ["0"] or instruction.predicate is not None or instruction.opcode != "bar.sync":
            self.writer.fail(instruction)
        place = self.barriers[index]
        kept = " ".join(f"t.kept[{slot}] = {register[1:]};" for slot, register in enumerate(self.live[index]))
        stop = f"{kept} t.resume_at = {place}; t.line = {instruction.line}; return Stop::kBarrier;"
        if self.mutants is not None:
            mutant = self.mutants.add(self.kernel, instruction, "barrier", "a barrier is left out")
            stop = f"if (m.mutant() != {mutant}) {{ {stop} }}"
        return f"  {stop}\n bar_{place}:;\n"

    def jump(self, index, instruction):
        target = instruction.operands[0]
        if instruction.opcode not in ("bra", "bra.uni"):
            self.writer.fail(instruction)
        text = f"goto {target.replace('$', '_')};"
        if self.kernel.labels[target] <= index:
            text = f"if (m.IsEndless()) return Stop::kEndless; {text}"
        return text

    def instruction(self, index, instruction):
        kind = instruction.parts[0]
        if kind == "bar":
            return self.barrier(index, instruction)
        if kind == "bra":
            text = self.jump(index, instruction)
        elif instruction.opcode == "ret":
            text = "return Stop::kExit;"
        else:
            return f"  {self.writer.statement(instruction)}\n"
        if instruction.predicate is None:
            return f"  {text}\n"
        negation = "!" if instruction.is_negated else ""
        return f"  if ({negation}{instruction.predicate[1:]}) {{ {text} }}\n"

    def lines(self):
        body = []
        for index, instruction in enumerate(self.kernel.body):
            body += [f" {label.replace('$', '_')}:;\n" for label in self.labels.get(index, ())]
            if index in self.blocks:
                body.append(f"  m.Enter(t, {self.blocks[index][0]});\n")
            body.append(self.instruction(index, instruction))
        body += [f" {label.replace('$', '_')}:;\n" for label in self.labels.get(len(self.kernel.body), ())]
        yield f"\nconst Site kSites{self.number}[] = {{\n"
        for line, text in self.writer.sites or [(0, "")]:
            yield f"  {{{line}, {quoted(text)}}},\n"
        yield "};\n"
        if self.blocks:
            counts = ", ".join(str(count) for _, count in self.blocks.values())
            yield f"\nconst std::uint32_t kBlocks{self.number}[] = {{{counts}}};\n"
        yield f"\nStop Run{self.number}(Machine& m, Thread& t) {{\n"
        yield from self.declarations()
        yield from self.resumptions()
        yield from body
        yield "  return Stop::kExit;\n}\n"

    def has_small_shared_stores(self):
        """Whether one writes less than a word of an array in shared memory."""
        return any(instruction.opcode in ("st.shared.u8", "st.shared.u16") and "[%" in instruction.operands[0]
                   for instruction in self.kernel.body)

    def entry(self):
        is_small = "true" if self.has_small_shared_stores() else "false"
        return (f"  {{{quoted(self.kernel.name)}, {self.kernel.parameter_bytes}, {self.kept_words()}, {is_small},\n"
                f"   kSites{self.number}, Run{self.number}{f', kBlocks{self.number}' if self.blocks else ''}}},\n")


def translate(text, path, symbol, has_mutants=False, has_counts=False):
    """The C++ of a file of PTX."""
    module = ptx_text.parse(text, path)
    mutants = Mutants() if has_mutants else None
    kernels = [KernelText(module, number, mutants, has_counts) for number in range(len(module.kernels))]
    lines = [_HEAD]
    for kernel in kernels:
        lines += kernel.lines()
    lines.append("\nconst Kernel kKernels[] = {\n")
    lines += [kernel.entry() for kernel in kernels]
    lines.append("};\n\nconst std::uint32_t kStaticSharedBytes[] = {")
    lines += ", ".join(map(str, [*module.static_shared.values(), 0]))
    lines.append("};\n\nconst Mutant kMutants[] = {\n")
    if mutants is not None:
        lines += mutants.rows()
    # Of none there would be no array.
    lines.append('  {"", 0, "", 0, 0, ""},\n')
    mutant_count = len(mutants.all) if mutants is not None else 0
    lines.append(f"}};\n\n}}  // namespace\n\nextern const ModuleKernels {symbol};\nconst ModuleKernels {symbol} = {{\n    {quoted(path)},\n    kKernels,\n"
                 f"    {{kStaticSharedBytes, {len(module.static_shared)}}},\n    {{kMutants, {mutant_count}}},\n}};\n\n"
                 "}  // namespace kerf::cuda::ptx\n")
    return "".join(lines)


def main():
    options = [argument for argument in sys.argv[1:] if argument in ("--mutants", "--counts")]
    ptx, symbol, cpp = sys.argv[1 + len(options):]
    with open(ptx, encoding="ascii") as file:
        text = file.read()
    try:
        made = translate(text, ptx.rsplit("/", 1)[-1], symbol, "--mutants" in options, "--counts" in options)
    except ptx_text.PtxError as error:
        sys.exit(f"translate.py: {error}\nWhat it knows stands in kernels/cuda/ptx/translate/cpp_operations.py.")
    with open(cpp, "w", encoding="ascii") as file:
        file.write(made)


if __name__ == "__main__":
    main()
