"""Any bytes as Protobuf values; see `values.pxi`."""
include "values.pxi"

from fuzz.protobuf_types import TYPES
from kafwire.protobuf._protobuf_program import ProtobufProgram
from kafwire.protobuf.program import compile_message


def prepare():
    """Compile the types."""
    for kind in TYPES:
        made = compile_message(kind.DESCRIPTOR)
        add(made.columns, ProtobufProgram(made.messages, made.fields, made.tables, bytes(made.texts), None))
