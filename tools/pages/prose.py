"""Markdown as the site's pages have it, taken apart with the parser that builds them."""

import dataclasses
import functools
import re

import markdown_it

# Longer than that a paragraph is not read.
MAX_WORDS = 120
# What a page is for is said in words that a reader knows again, within so many sentences.
OPENING_SENTENCES = 2
_PURPOSE = re.compile(r"\b([Tt]his page (is for|says|has|lists|shows|helps|explains|takes you)|[Tt]hese pages are for|Look here|How to|for whoever)\b")
_END_OF_SENTENCE = re.compile(r"(?<=[.:?!])\s+(?=[A-Z`*\[])")


@dataclasses.dataclass(frozen=True)
class Code:
    line: int
    text: str
    # In a line of text, not a block of its own.
    is_inline: bool


@functools.cache
def _tokens(text):
    return markdown_it.MarkdownIt("commonmark").enable("table").parse(text)


def _words(token):
    return len(" ".join(child.content for child in token.children if child.type in ("text", "code_inline")).split())


def long_paragraphs(text):
    """(line, words) of those that are too long; an item of a list is one, a cell of a table is none."""
    tokens = _tokens(text)
    for before, token in zip(tokens, tokens[1:]):
        if before.type == "paragraph_open" and token.type == "inline" and (words := _words(token)) > MAX_WORDS:
            yield before.map[0] + 1, words


def opening(text):
    """The first sentences below the title; "" if there are none."""
    tokens = _tokens(text)
    for before, token in zip(tokens, tokens[1:]):
        if before.type == "paragraph_open":
            return " ".join(" ".join(_END_OF_SENTENCE.split(token.content)[:OPENING_SENTENCES]).split())
    return ""


def says_what_for(text):
    return _PURPOSE.search(opening(text)) is not None


def links(text):
    """Where its links and pictures lead, as they are written."""
    for token in _tokens(text):
        for child in token.children or []:
            if child.type in ("link_open", "image"):
                yield child.attrs.get("href") or child.attrs.get("src")


def code(text):
    """What is set as code."""
    line = 1
    for token in _tokens(text):
        line = token.map[0] + 1 if token.map else line
        if token.type in ("fence", "code_block"):
            for number, content in enumerate(token.content.splitlines(), line + (token.type == "fence")):
                yield Code(number, content, False)
        elif token.type == "inline":
            for child in token.children:
                if child.type == "code_inline":
                    yield Code(line, child.content, True)
