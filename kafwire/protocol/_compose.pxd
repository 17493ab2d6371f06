"""Encodes messages by their tables."""
from kafwire.protocol._layout cimport Table


cdef bytes compose(Table table, object message, bytes prefix)
