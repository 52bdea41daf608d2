"""What a case of the kit is: a number that it keeps for ever, the rules that it judges, and what a client needs for it."""

from typing import Callable, NamedTuple

CASES = {}


class Case(NamedTuple):
    number: int
    title: str
    rules: tuple[str, ...]
    needs: frozenset[str]
    # Of rules that say SHOULD: a client that does otherwise is told so, and has not failed.
    is_advice: bool
    run: Callable

    @property
    def name(self):
        return f"CON-{self.number}"


def case(number, title, rules, needs="", *, is_advice=False):
    def made(run):
        if number in CASES:
            raise ValueError(f"CON-{number} is the number of two cases")
        CASES[number] = Case(number, title, tuple(rules.split()), frozenset(needs.split()), is_advice, run)
        return run
    return made
