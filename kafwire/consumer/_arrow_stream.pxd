"""The Arrow stream of a reader: from end to end without the GIL."""
from kafwire.consumer._column_reader cimport ColumnReader


# An `arrow_array_stream` capsule, which takes the reader for itself.
cdef object stream_capsule(ColumnReader reader)
