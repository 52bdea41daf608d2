"""What pages name has to be there: verbs and flags of kerf and kerfd, variables, metrics, reasons of errors."""

import re

import help_text
import prose
import references
import repository

# A command is the first word, or behind what begins another one: `out/kerf` and `sudo kerf`, not `kubectl -n kerf`.
_COMMAND = re.compile(r"(?:^\s*|[|;&(]\s*|\$ |sudo |/)(kerfd?)(?=\s|$)((?:\s+[^\s|;&#`]+)*)")
_FLAG = re.compile(r"(?<![\w-])(--[a-z][a-z0-9-]*)")
_METRIC = re.compile(r"(?<![\w/.-])(kerf_[a-z0-9_]+)(\.\.\.)?")
_REASON = re.compile(r"(?<![\w.${])([A-Z]+(?:_[A-Z]+)+)(?![\w*])")
_VARIABLE = re.compile(r"\b(KERFD?_[A-Z_]+)(?![\w*])")
# Of others, and of no list that a program prints.
_FLAGS_OF_OTHERS = {
    "--all", "--arrows", "--before", "--brief", "--cacert", "--check", "--cluster-replace", "--config", "--draw", "--input", "--kubectl", "--part",
    "--releases", "--rounds", "--scenario", "--seed", "--set", "--slo", "--time", "--tls", "--update", "--user", "--write",
}
_WORDS_OF_OTHERS = {
    # gRPC's codes, and what its health service says.
    "ALREADY_EXISTS", "DATA_LOSS", "DEADLINE_EXCEEDED", "FAILED_PRECONDITION", "INVALID_ARGUMENT", "NOT_FOUND", "NOT_SERVING",
    "OUT_OF_RANGE", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED",
    # Of HTTP/2, Linux, the environment and protos, and what a page says for a folder.
    "CLOCK_REALTIME_COARSE", "DATA_DIR", "ENHANCE_YOUR_CALM", "F_SEAL_FUTURE_WRITE", "HTTPS_PROXY", "LLVM_PROFILE_FILE", "PASSED_ON",
    "RST_STREAM", "SO_LINGER", "SO_PEERCRED", "STATIC_LINK", "XDG_STATE_HOME",
}
_PARTS_OF_HISTOGRAM = re.compile(r"_(bucket|sum|count)$")
_OF_METRICS_PAGE = re.compile(r"^\| `(\w+)` \|.*\| (.*) \|$", re.MULTILINE)
_SELECTION = re.compile(r"\b(kerf_[a-z0-9_]+)\{([^}]*)\}")
_LABEL = re.compile(r"(\w+)=~?\"([^\"]*)\"")
_BY_REASON = "a reason of docs/spec/protocol.md"


class Known:
    """What is there to be named."""

    def __init__(self, root, kerf, kerfd):
        self.verbs = {verb.command: verb for verb in help_text.verbs_of(kerf, "kerf")}
        self.kerfd = help_text.parse("kerfd", help_text.run(kerfd, "--help"))
        self.kerfd_flags = {option.name for option in self.kerfd.options}
        self.everywhere = {option.name for option in self.verbs["kerf"].options}
        self.kerf_flags = {option.name for verb in self.verbs.values() for option in verb.options}
        # Metric -> what its page says of its labels.
        self.metrics = dict(_OF_METRICS_PAGE.findall((root / "docs/metrics.md").read_text(encoding="utf-8")))
        self.reasons = {reason.name for reason in repository.reasons(root)}
        self.values = set(repository.words(root, r"^ *([A-Z]+(?:_[A-Z]+)+) = \d+", "proto/*.proto"))
        self.functions = set(repository.words(root, r"\b(kerf_\w+)\(", "client/c/kerf.h"))
        self.functions |= set(repository.words(root, r"^} (kerf_\w+);", "client/c/kerf.h"))
        self.functions |= set(repository.words(root, r"\(\*(kerf_\w+)\)\(", "client/c/kerf.h"))
        self.variables = {option.environment for verb in self.verbs.values() for option in verb.options if option.environment}
        self.kit_flags = set(repository.words(root, r'add_argument\("(--[a-z][a-z-]*)"', "client/conformance/*.py",
                                          "loadtest/index_scale.py"))
        # Of builds and tests: no program lists these.
        self.variables |= set(repository.words(root, r"\bKERF_[A-Z_]*[A-Z]\b"))
        self.variables |= {references.variable_of_kerfd(option) for option in references.settings_of_kerfd(self.kerfd)}


def _wrong_command(known, program, rest):
    words = rest.split()
    if program == "kerfd":
        return [f"kerfd has no flag {flag}" for word in words for flag in _FLAG.findall(word) if flag not in known.kerfd_flags]
    command = "kerf"
    while words and f"{command} {words[0]}" in known.verbs:
        command += f" {words.pop(0)}"
    verb = known.verbs[command]
    if verb.verbs and words and re.fullmatch(r"[a-z][a-z-]+", words[0]):
        return [f"there is no {command} {words[0]}"]
    # Without a verb it stands for all of them.
    allowed = known.kerf_flags if command == "kerf" else {option.name for option in verb.options} | known.everywhere
    return [f"{command} has no flag {flag}" for word in words for flag in _FLAG.findall(word) if flag not in allowed]


def wrong_in(known, text):
    """(line, what) of what a page names and is not there."""
    for piece in prose.code(text):
        for program, rest in _COMMAND.findall(piece.text):
            for what in _wrong_command(known, program, rest):
                yield piece.line, what
        if piece.is_inline and piece.text.startswith("--"):
            for flag in _FLAG.findall(piece.text):
                if flag not in known.kerf_flags | known.kerfd_flags | known.kit_flags | _FLAGS_OF_OTHERS:
                    yield piece.line, f"there is no flag {flag}"
        for name, more in _METRIC.findall(piece.text):
            if name not in known.functions and not _is_metric(known, name, more):
                yield piece.line, f"there is no metric, and no function of C, {name}"
        for metric, selection in _SELECTION.findall(piece.text):
            for label, values in _LABEL.findall(selection):
                for value in values.split("|"):
                    if not _is_label(known, metric, label, value):
                        yield piece.line, f"{metric} has no {label}=\"{value}\""
    for number, line in enumerate(text.splitlines(), 1):
        for name in _VARIABLE.findall(line):
            if name not in known.variables:
                yield number, f"there is no variable {name}"
        for name in _REASON.findall(line):
            if name not in known.reasons | known.values | _WORDS_OF_OTHERS and not name.startswith(("KERF_", "KERFD_")):
                yield number, f"there is no reason {name}"


def _is_label(known, metric, label, value):
    labels = known.metrics.get(_PARTS_OF_HISTOGRAM.sub("", metric), "")
    _, is_there, values = labels.partition(f"`{label}`: ")
    values = values.partition("; `")[0]
    return bool(is_there) and (re.search(rf"\b{re.escape(value)}\b", values) is not None or (_BY_REASON in values and value in known.reasons))


def _is_metric(known, name, more):
    if more or name.endswith("_"):
        return any(metric.startswith(name) for metric in known.metrics)
    return name in known.metrics or _PARTS_OF_HISTOGRAM.sub("", name) in known.metrics
