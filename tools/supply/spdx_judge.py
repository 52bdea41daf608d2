"""Whether a document is SPDX 2.3, by the word of spdx-tools, the library of the SPDX project. Runs in out/tools/supply."""

from spdx_tools.spdx.parser.error import SPDXParsingError
from spdx_tools.spdx.parser.parse_anything import parse_file
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document


def findings(path):
    try:
        document = parse_file(str(path))
    except SPDXParsingError as error:
        yield from error.get_messages()
        return
    for message in validate_full_spdx_document(document):
        yield f"{message.context.spdx_id or message.context.element_type}: {message.validation_message}"
