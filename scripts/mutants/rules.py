"""Rules of drawing, as data: areas and their shares, patterns' weights, and spots that say nothing, with reasons."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Area:
    """Sources that are drawn from together; a draw takes `share` of the sum of all drawn areas' shares from it."""

    name: str
    share: float
    sources: tuple[str, ...]  # globs, from the root


AREAS = (
    Area("cluster", 0.16, ("kafwire/runtime/**/*.py", "kafwire/cluster/**/*.py")),
    Area("producer", 0.18, ("kafwire/producer/**/*.py",)),
    Area("consumer", 0.18, ("kafwire/consumer/**/*.py", "kafwire/scanner/**/*.py")),
    Area("protocol", 0.06, ("kafwire/protocol/*.py", "kafwire/records/**/*.py")),
    Area("stream", 0.12, ("kafwire/stream/**/*.py",)),
    Area("outbox", 0.04, ("kafwire/outbox/**/*.py", "kafwire/database/**/*.py")),
    Area("security", 0.06, ("kafwire/security/**/*.py",)),
    Area("broker", 0.10, ("kafwire/broker/**/*.py",)),
    Area("flavours", 0.10, ("kafwire/sync/**/*.py", "kafwire/aio/**/*.py")),
    Area("history", 0.07, ("kafwire/testing/history/**/*.py",)),
    Area("cython", 0.24, ("kafwire/**/*.pyx",)),
    Area("native", 0.12, ("kafwire/**/native/*.c", "kafwire/**/native/*.h")),
)

# How often a pattern is drawn, beside the others that the area has: 1 unless it is here.
WEIGHTS = {
    "guard dropped": 2.0,
    "condition negated": 1.5,
    "side dropped": 2.0,
    "effect dropped": 2.0,
    "assignment dropped": 2.0,
    "boundary moved": 1.5,
    "flag flipped": 1.0,
    "code removed": 0.7,
    "code moved": 0.3,
    "constant moved": 0.7,
}
# Of a constant that is no larger, one more or less decides something; larger ones are sizes.
LARGEST_CONSTANT = 16


@dataclass(frozen=True)
class Avoided:
    """Spots that are left alone: those whose `what` is found by `pattern`. The reason is for the reader of the list."""

    what: str  # function: its qualified name; call: the called name; raised: the class; condition, boundary: the source
    pattern: re.Pattern[str]
    reason: str


def _avoid(what: str, pattern: str, reason: str) -> Avoided:
    return Avoided(what, re.compile(pattern), reason)


AVOIDED = (
    _avoid("call", r"^(log|_?log(ger)?|logging)\.\w+$|^warnings\.\w+$|^print$", "for people"),
    _avoid("call", r"^(sn?printf|fprintf|perror)$", "the words of a message"),
    _avoid("function", r"(^|\.)__(repr|str|del|dealloc|rich_repr)__$", "for people, or the interpreter's end"),
    _avoid(
        "function",
        r"(^|\.)(abandon|_?after_fork\w*|end_of_interpreter)$",
        "only in forked processes",
    ),
    _avoid("raised", r"^(AssertionError|MemoryError|NotImplementedError)$", "cannot happen, or only without memory"),
    _avoid(
        "boundary", r"now|_ms\b|_MS\b|_ns\b|deadline|monotonic|elapsed|seconds", "two times are equal by chance only"
    ),
    _avoid("condition", r"\b(grow|reserve|mark_null|kw_buf_reserve|kw_scratch_reserve)\b", "without memory only"),
    _avoid(
        "call",
        r"^(free|PyMem_Free|PyMem_RawFree|Py_DECREF|Py_XDECREF|Py_CLEAR|kw_free)$",
        "a leak: the sanitizers look for it",
    ),
    _avoid(
        "call", r"^(__builtin_\w+|madvise|posix_fadvise|_mm_\w+|sched_yield|PyErr_CheckSignals)$", "hints, and signals"
    ),
    _avoid(
        "call",
        r"^pthread_\w+$|^kw_(un)?lock$|^lock$|^unlock$",
        "a race: the sanitizers look for it",
    ),
    _avoid("call", r"^(gc|sys)\.\w+$", "the interpreter's own tuning"),
    _avoid("call", r"\.(set_name|set_debug)$", "names of threads and tasks"),
)


def avoids(what: str, name: str) -> bool:
    """True if spots of this name say nothing."""
    return any(rule.what == what and rule.pattern.search(name) for rule in AVOIDED)
