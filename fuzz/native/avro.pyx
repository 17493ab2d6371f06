"""Any bytes as Avro values; see `values.pxi`."""
include "values.pxi"

from fuzz.avro_schemas import PAIRS
from kafwire.avro._avro_program import AvroProgram
from kafwire.avro.columns import Columns
from kafwire.avro.program import compile_program
from kafwire.avro.schema import parse


def prepare():
    """Compile the pairs of schemas."""
    for writer, reader in PAIRS:
        columns = Columns(parse(reader))
        compiled = compile_program(parse(writer), columns)
        add(columns.columns, AvroProgram(compiled.operations, compiled.tables, bytes(compiled.constants)))
