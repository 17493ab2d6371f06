r"""Regular expressions of clients' requests: RE2's syntax and results, in bounded time for any pattern.

Kafka matches them by RE2. With google-re2 installed (`pip install kafwire[re2]`), this module uses it too. Otherwise it
advances the states of all paths through the pattern together over the text, so it tries no path twice. Each state that
advances is a step, and a search has a limit of steps. Unicode classes (`\p`) need google-re2.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kafwire.broker.pattern_syntax import Assertion, Character, PatternError, Repeat, parse

if TYPE_CHECKING:
    from kafwire.broker.pattern_syntax import PatternNode

__all__ = ["Pattern", "PatternError", "matching"]

MOST_STATES = 50_000  # of one pattern
MOST_STEPS = 300_000  # of one search, for all its patterns and texts

_log = logging.getLogger(__name__)


def _imported() -> Any:
    try:
        import re2  # type: ignore[import-not-found]
    except ImportError:
        return None
    return re2


RE2 = _imported()


class Pattern:
    """A pattern that matches whole texts.

    Args:
        text: the pattern, in RE2's syntax.

    Raises:
        PatternError: the pattern is invalid, or larger than a broker accepts.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._re2: Any = None
        self._program: Program | None = None
        if RE2 is None:
            self._program = Program(parse(text))
            return
        options = RE2.Options()
        options.log_errors = False
        try:
            self._re2 = RE2.compile(text, options)
        except RE2.error as error:
            (reason,) = error.args or ("",)
            raise PatternError(reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)) from None

    def matches(self, text: str, budget: Budget) -> bool:
        """True if the whole text matches. Raises `OutOfStepsError`."""
        if self._program is None:
            return self._re2.fullmatch(text) is not None
        return self._program.matches(text, budget)


def matching(patterns: Iterable[Pattern], texts: Sequence[str]) -> dict[str, frozenset[str]]:
    """Return the texts that match each pattern, by its text.

    All patterns share one budget of steps. For a pattern that exceeds it, the result has the matches until then, and a
    warning names the pattern.
    """
    budget = Budget(MOST_STEPS)
    return {each.text: frozenset(_found(each, texts, budget)) for each in patterns}


def _found(pattern: Pattern, texts: Sequence[str], budget: Budget) -> Iterator[str]:
    try:
        for text in texts:
            if pattern.matches(text, budget):
                yield text
    except OutOfStepsError:
        message = "the pattern %.200r takes more than %d steps, so some names were not tried: install kafwire[re2]"
        _log.warning(message, pattern.text, MOST_STEPS)


class OutOfStepsError(Exception):
    """A search has used up its steps."""


@dataclass(slots=True)
class Budget:
    """The steps that are left."""

    left: int

    def use(self, steps: int) -> None:
        """Take steps. Raises `OutOfStepsError`."""
        self.left -= steps
        if self.left < 0:
            raise OutOfStepsError


@dataclass(slots=True)
class _State:
    """A state that continues at `following`: after a character of `test`, where `assertion` holds, or at once."""

    following: tuple[int, ...]
    test: Character | None = None
    assertion: Assertion | None = None


@dataclass(slots=True)
class Program:
    """The states of a pattern. Known sets of states are cached with the sets after each character."""

    root: PatternNode
    _states: list[_State] = field(default_factory=list)
    _known: dict[tuple[frozenset[int], str, str], frozenset[int]] = field(default_factory=dict)
    _start: int = 0

    def __post_init__(self) -> None:
        self._start = self._build(self.root, self._add(_State(())))

    def _add(self, state: _State) -> int:
        if len(self._states) >= MOST_STATES:
            raise PatternError("expression is too large")
        self._states.append(state)
        return len(self._states) - 1

    def _build(self, node: PatternNode, end: int) -> int:
        """Add the states of a part that continues at `end`. Return its first state."""
        match node:
            case Character():
                return self._add(_State((end,), test=node))
            case Assertion():
                return self._add(_State((end,), assertion=node))
            case Repeat():
                return self._build_repeat(node, end)
            case list():  # a sequence
                for part in reversed(node):
                    end = self._build(part, end)
                return end
            case tuple():  # alternatives
                return self._add(_State(tuple(self._build(part, end) for part in node)))

    def _build_repeat(self, node: Repeat, end: int) -> int:
        if node.most is None:
            loop = self._add(_State(()))
            self._states[loop].following = (self._build(node.part, loop), end)
            end = loop
        else:
            last = end
            for _ in range(node.most - node.least):
                end = self._add(_State((self._build(node.part, end), last)))
        for _ in range(node.least):
            end = self._build(node.part, end)
        return end

    def matches(self, text: str, budget: Budget) -> bool:
        """True if the whole text matches. Raises `OutOfStepsError`."""
        states, before = frozenset([self._start]), ""
        for char in (*text, ""):
            budget.use(1)
            key = states, before, char
            known = self._known.get(key)
            if known is None:
                known = self._known[key] = self._advance(states, before, char, budget)
            if not known:
                return False
            states, before = known, char
        return True

    def _advance(self, states: frozenset[int], before: str, char: str, budget: Budget) -> frozenset[int]:
        """Return the states after a character; after the text's end: any state, if it matches."""
        seen, left = set(states), list(states)
        found: set[int] = set()
        while left:
            number = left.pop()
            state = self._states[number]
            budget.use(1 + len(state.following))
            if state.test is not None:
                if char and state.test.passes(char):
                    found.update(state.following)
            elif not state.following:
                if not char:
                    return frozenset([number])
            elif state.assertion is None or state.assertion.holds(before, char):
                for each in state.following:
                    if each not in seen:
                        seen.add(each)
                        left.append(each)
        return frozenset(found)
