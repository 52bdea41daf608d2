"""Which registers of a thread are read again behind a barrier: what it has to keep while others run."""

import re

_REGISTER = re.compile(r"%(?:p|rs|r|rd)\d+\b")
# These write no register.
_WRITE_NONE = ("st", "red", "bra", "bar", "ret", "membar")


def registers_of(instruction):
    """(registers that it writes, registers that it reads)."""
    operands = instruction.operands
    writes_none = instruction.parts[0] in _WRITE_NONE
    written = set() if writes_none else set(_REGISTER.findall(operands[0]))
    read = set(_REGISTER.findall(" ".join(operands if writes_none else operands[1:])))
    if instruction.predicate is not None:
        # Else they keep what they have.
        read |= written | {instruction.predicate}
    return written, read


def successors_of(kernel, index):
    """Indices of what may run behind the instruction at `index`."""
    instruction = kernel.body[index]
    is_conditional = instruction.predicate is not None
    follows = [index + 1] if index + 1 < len(kernel.body) else []
    if instruction.parts[0] == "bra":
        target = kernel.labels[instruction.operands[0]]
        return ([target] if target < len(kernel.body) else []) + (follows if is_conditional else [])
    if instruction.parts[0] == "ret" and not is_conditional:
        return []
    return follows


def blocks_of(kernel):
    """[(first index, index behind the last)] of runs that nothing jumps into or out of."""
    starts = {0} | {index for index in kernel.labels.values() if index < len(kernel.body)}
    for index, instruction in enumerate(kernel.body):
        if instruction.parts[0] in ("bra", "ret") and index + 1 < len(kernel.body):
            starts.add(index + 1)
    ordered = sorted(starts)
    return list(zip(ordered, ordered[1:] + [len(kernel.body)]))


def live_behind_barriers(kernel):
    """{index of a bar: the registers that are read behind it before they are written}, sorted."""
    touched = [registers_of(instruction) for instruction in kernel.body]
    blocks = blocks_of(kernel)
    followers = {start: successors_of(kernel, end - 1) for start, end in blocks}
    live_at_start = {start: frozenset() for start, _ in blocks}

    def walk(start, end, visit=None):
        live = set().union(*(live_at_start[follower] for follower in followers[start]))
        for index in range(end - 1, start - 1, -1):
            if visit is not None:
                visit(index, live)
            written, read = touched[index]
            live = (live - written) | read
        return frozenset(live)

    is_changed = True
    while is_changed:
        is_changed = False
        for start, end in reversed(blocks):
            live = walk(start, end)
            if live != live_at_start[start]:
                live_at_start[start] = live
                is_changed = True

    result = {}

    def note(index, live):
        if kernel.body[index].parts[0] == "bar":
            result[index] = sorted(live)

    for start, end in blocks:
        walk(start, end, note)
    return result
