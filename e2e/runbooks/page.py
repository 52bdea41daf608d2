"""A runbook, as whoever is woken by it reads it: what a test does has to stand there."""

import pathlib
import shlex

ROOT = pathlib.Path(__file__).resolve().parents[2]
_FOLDER = ROOT / "docs/runbooks"


class Page:
    def __init__(self, name):
        self.name = name
        folder = "alerts" if name.startswith("Kerf") else "reasons"
        text = (_FOLDER / folder / f"{name}.md").read_text(encoding="utf-8")
        # As it is read: where a line ends says nothing.
        self._text = " ".join(text.split())

    def has(self, words):
        return words in self._text

    def command(self, template, values):
        """The words of a command of the page, with `values` in the place of the words that stand for them."""
        return [str(values.get(word, word)) for word in shlex.split(template)]
