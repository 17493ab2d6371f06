"""The Arrow stream of a reader. It decodes and exports without the GIL."""
from kafwire.consumer.delivery._column_reader cimport ColumnReader


# An `arrow_array_stream` capsule. It has the reader to itself.
cdef object stream_capsule(ColumnReader reader)
