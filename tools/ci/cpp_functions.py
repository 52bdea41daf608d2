"""Functions of C++ sources and their lengths, for house_rules.py: found by their braces, as clang-format leaves them."""

import re

# What may hold functions, and is none.
SCOPE = re.compile(r"\b(namespace|class|struct|union|enum|extern)\b")
LAMBDA = re.compile(r"(\w+)\s*=\s*\[[^\]]*\][^=;]*$")
NAME = re.compile(r"([~\w:]+|operator\s*[^\s(]+)\s*\(")
TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<mark>[^()\s]*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Fa-f])\'(?:\\.|[^\'\\\n])+\'|'
    r'^[ \t]*\#(?:\\\n|[^\n])*', re.S | re.M)


def without_words(text):
    """The text with comments, strings and preprocessor lines blank, its lines as they were."""
    return TOKEN.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def name_of(head):
    """Of a function whose body begins behind these words, or None for another block."""
    head = re.sub(r"\b(template|requires)\s*<[^{}]*?>\s*(?=\w)", "", head)
    found = NAME.search(head)
    if not found or (SCOPE.search(head[: found.start()]) and not head.rstrip().endswith((")", "const", "override", "noexcept"))):
        return None
    return found.group(1)


def functions(text):
    """(name, line, lines) of each function, from the first line of its head to its brace; those inside one belong to it."""
    text = without_words(text)
    # What is open: None is a scope, False part of something longer (an initializer), and a function its name and line.
    opened = []
    head_from = 0
    for match in re.finditer(r"[{};]|\b(?:public|private|protected)\s*:", text):
        at, what = match.start(), match.group()
        is_outside = all(one is None for one in opened)
        if what == "{":
            head = text[head_from:at]
            function_object = LAMBDA.search(head) if is_outside else None
            name = function_object.group(1) if function_object else name_of(head) if is_outside else None
            # Only a body has a space before it: Thing() : a_{1} {
            if not is_outside or not text[at - 1].isspace() or (not name and "=" in head):
                opened.append(False)
                continue
            start = head_from + len(head) - len(head.lstrip())
            opened.append((name, text.count("\n", 0, start) + 1) if name else None)
        elif what == "}":
            closed = opened.pop() if opened else None
            if closed is False:
                continue
            if closed:
                name, line = closed
                yield name, line, text.count("\n", 0, at) + 2 - line
        elif not is_outside:
            continue
        head_from = match.end()
