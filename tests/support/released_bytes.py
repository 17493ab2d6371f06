"""A bytes-like object whose buffer is given back by Python code, as PEP 688 allows from Python 3.12 on."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

_BF_GETBUFFER, _BF_RELEASEBUFFER, _TP_NEW = 1, 2, 65


class _Slot(ctypes.Structure):
    _fields_ = [("slot", ctypes.c_int), ("function", ctypes.c_void_p)]


class _Spec(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("basicsize", ctypes.c_int),
        ("itemsize", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("slots", ctypes.POINTER(_Slot)),
    ]


_GET = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p, ctypes.c_int)
_RELEASE = ctypes.PYFUNCTYPE(None, ctypes.py_object, ctypes.c_void_p)
_contents: dict[int, tuple[bytes, Callable[[], object]]] = {}


def _get_buffer(exporter: Any, view: int, flags: int) -> int:
    data, _ = _contents[id(exporter)]
    fill = ctypes.pythonapi.PyBuffer_FillInfo
    fill.argtypes = [
        ctypes.c_void_p,
        ctypes.py_object,
        ctypes.c_char_p,
        ctypes.c_ssize_t,
        ctypes.c_int,
        ctypes.c_int,
    ]
    return int(fill(view, exporter, data, len(data), 1, flags))


def _release_buffer(exporter: Any, view: int) -> None:
    _contents[id(exporter)][1]()


_get, _release = _GET(_get_buffer), _RELEASE(_release_buffer)


def _make_type() -> Any:
    slots = (_Slot * 4)(
        _Slot(_BF_GETBUFFER, ctypes.cast(_get, ctypes.c_void_p)),
        _Slot(_BF_RELEASEBUFFER, ctypes.cast(_release, ctypes.c_void_p)),
        _Slot(_TP_NEW, ctypes.cast(ctypes.pythonapi.PyType_GenericNew, ctypes.c_void_p)),
        _Slot(0, None),
    )
    make = ctypes.pythonapi.PyType_FromSpec
    make.restype, make.argtypes = ctypes.py_object, [ctypes.POINTER(_Spec)]
    default_flags = 1 << 18
    return make(_Spec(b"releasing.Exporter", sys.getsizeof(object()), 0, default_flags, slots))


_Exporter = _make_type()


def releasing(data: bytes, then: Callable[[], object]) -> Any:
    """Bytes-like: `then()` is called when the buffer is given back, and what it raises is lost, as in any such code."""
    exporter = _Exporter()
    _contents[id(exporter)] = data, then
    return exporter
