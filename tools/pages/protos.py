"""The reference of proto/kerf/v1, of what protoc makes of it: services, messages, fields, and the comments that stand there."""

import pathlib
import subprocess
import tempfile

from google.protobuf import descriptor_pb2

_FOLDER = "kerf/v1"
_TIMEOUT_S = 60
_Field = descriptor_pb2.FieldDescriptorProto
# Numbers of the fields by which a descriptor's source information names places.
_SERVICES, _MESSAGES, _ENUMS, _SYNTAX = 6, 4, 5, 12
_NESTED, _NESTED_ENUMS, _FIELDS, _METHODS, _VALUES = 3, 4, 2, 2, 2


def _describe(root):
    files = sorted((root / "proto" / _FOLDER).glob("*.proto"))
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "descriptors"
        subprocess.run(["protoc", f"--proto_path={root / 'proto'}", "--include_source_info", f"--descriptor_set_out={out}", *files],
                       check=True, timeout=_TIMEOUT_S)
        return descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file


class _Comments:
    def __init__(self, file):
        self._of = {tuple(place.path): place for place in file.source_code_info.location}

    def __call__(self, *path):
        place = self._of.get(path)
        if place is None:
            return ""
        blocks = [*place.leading_detached_comments, place.leading_comments, place.trailing_comments]
        text = "\n\n".join(block.strip("\n") for block in blocks if block.strip())
        return "\n".join(line.removeprefix(" ").rstrip() for line in text.splitlines())

    def in_a_cell(self, *path):
        return " ".join(self(*path).split()).replace("|", r"\|").replace("<", "&lt;")

    def as_text(self, *path):
        return self(*path).replace("<", "&lt;").replace("*", r"\*")


def _type(field):
    name = field.type_name.lstrip(".") if field.type_name else _Field.Type.Name(field.type).removeprefix("TYPE_").lower()
    word = name.removeprefix("kerf.v1.")
    return f"repeated {word}" if field.label == _Field.LABEL_REPEATED else word


def _enum(enum, prefix, comments, path):
    rows = [f"| `{value.name}` | {value.number} | {comments.in_a_cell(*path, _VALUES, number)} |" for number, value in enumerate(enum.value)]
    return [f"### enum {prefix}{enum.name}", comments.as_text(*path), "\n".join(["| value | number | meaning |", "| --- | --- | --- |", *rows])]


def _message(message, prefix, comments, path):
    parts = [f"### {prefix}{message.name}", comments.as_text(*path)]
    rows = []
    for number, field in enumerate(message.field):
        meaning = comments.in_a_cell(*path, _FIELDS, number)
        if field.HasField("oneof_index") and not field.proto3_optional:
            meaning = f"*one of {message.oneof_decl[field.oneof_index].name}.* {meaning}".rstrip()
        rows.append(f"| `{field.name}` | {field.number} | `{_type(field)}` | {meaning} |")
    parts.append("\n".join(["| field | number | type | meaning |", "| --- | --- | --- | --- |", *rows]) if rows else "It has no fields.")
    for number, enum in enumerate(message.enum_type):
        parts += _enum(enum, f"{message.name}.", comments, (*path, _NESTED_ENUMS, number))
    for number, nested in enumerate(message.nested_type):
        parts += _message(nested, f"{message.name}.", comments, (*path, _NESTED, number))
    return parts


def _service(service, comments, path):
    parts = [f"### service {service.name}", comments.as_text(*path)]
    for number, method in enumerate(service.method):
        sent, answered = method.input_type.rpartition(".")[2], method.output_type.rpartition(".")[2]
        streams = ["stream " if streaming else "" for streaming in (method.client_streaming, method.server_streaming)]
        parts += [f"`rpc {method.name}({streams[0]}{sent}) returns ({streams[1]}{answered})`", comments.as_text(*path, _METHODS, number)]
    return parts


def page(root, made):
    parts = ["# Messages and calls",
             "Every service, call, message and field of `proto/kerf/v1`, with the comments that stand there. Look here when you write "
             f"a client without one of kerf's libraries; what may come when is said in [the protocol](../spec/protocol.md). {made}"]
    for file in _describe(root):
        comments = _Comments(file)
        parts += [f"## {file.name}", comments.as_text(_SYNTAX)]
        for number, service in enumerate(file.service):
            parts += _service(service, comments, (_SERVICES, number))
        for number, enum in enumerate(file.enum_type):
            parts += _enum(enum, "", comments, (_ENUMS, number))
        for number, message in enumerate(file.message_type):
            parts += _message(message, "", comments, (_MESSAGES, number))
    return "\n\n".join(part for part in parts if part) + "\n"
