"""A run in words: for the terminal, and for docs/internals/results/soak.md between two marks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kafwire.testing.history import KINDS
from scripts.marks import with_part
from tests.soak.access import AUTHENTICATIONS, PLAINTEXT, RENEWALS
from tests.soak.state import State, Tally

START, END = "<!-- soak: begin -->", "<!-- soak: end -->"

_LONG_MINUTES = 60
_MOST_LINES = 400


def text(state: State) -> str:
    """The summary, as Markdown."""
    minutes = f"{state.seconds / 60:.1f} minutes under load in {state.segment} segment(s)"
    secured = (("accepted by SASL (at least)", AUTHENTICATIONS), ("of these again, KIP-368", RENEWALS))
    lines = [
        f"Seed {state.seed}; {minutes}, {state.episode} episodes of faults.",
        "",
        "| | kafwire | confluent-kafka (control) |",
        "|---|---:|---:|",
        *(
            f"| {name} | {state.kafwire.counts[key]:,} | {state.control.counts[key]:,} |"
            for name, key in (
                ("records acknowledged", "acked"),
                ("records without a known outcome", "unknown"),
                ("of these in the log", "unknown_there"),
                ("records that failed for certain", "failed"),
                ("transactions committed", "committed"),
                ("transactions aborted", "aborted"),
                ("transactions without a known outcome", "undecided"),
                ("acknowledged, not read", "unread"),
                ("transactions not judged", "unjudged"),
                ("shown though aborted, Kafka's doing", "concealed"),
                ("read by live readers", "followed"),
                ("through the chain of two hops", "chain"),
                ("hops killed", "hops killed"),
                ("hops paused", "hops paused"),
                *(secured if state.security != PLAINTEXT else ()),
            )
        ),
        *(f"| **{name}** | {state.kafwire.found[name]:,} | {state.control.found[name]:,} |" for name in KINDS),
        "",
        f"Faults that took effect, {state.faults.total():,}: {_counts(dict(state.faults))}.",
        f"After a fault had ended, readers got every acknowledged record within {state.recovery_s:.1f} s, and each",
        f"record and transaction in progress had an outcome within {state.settled_s:.1f} s.",
        f"Memory of kafwire's processes, in MiB after 30 s, at the end and at the most: {_memory(state)}.",
        f"Errors raised to users of kafwire: {_errors(state.kafwire)}; of the control: {_errors(state.control)}.",
    ]
    if state.perils:
        lines += ["", *_perils(state)]
    if state.attempts > state.segment:
        lines.append(f"{state.attempts - state.segment} more segment(s) were begun and cut off; they do not count.")
    if state.environment:
        lines.append(", ".join(f"{key}: {value}" for key, value in state.environment.items()) + ".")
    return "\n".join(lines) + "\n"


def violations(state: State) -> list[str]:
    """The violations, a line for each finding: last of all, where a reader of the end alone sees them."""
    return [
        f"violated: {line}\n"
        for violation in state.violations
        for line in violation.splitlines()[:_MOST_LINES]
        if not line.startswith(" ")  # the operations of a finding
    ]


def figures(state: State) -> dict[str, Any]:
    """The same as numbers."""
    return {
        "seed": state.seed,
        "security": state.security,
        "minutes": round(state.seconds / 60, 1),
        "segments": state.segment,
        "episodes": state.episode,
        "kafwire": vars(state.kafwire),
        "control": vars(state.control),
        "faults": state.faults,
        "recovery_s": state.recovery_s,
        "settled_s": state.settled_s,
        "memory_mib": state.memory,
        "perils": state.perils,
        "violations": state.violations,
        "environment": state.environment,
    }


def document(path: Path, state: State) -> bool:
    """Put the summary between the marks of a document, if the run was plain, long, whole and without a violation."""
    if state.violations or not state.finished or state.seconds < _LONG_MINUTES * 60 or state.security != PLAINTEXT:
        return False
    path.write_text(with_part(path.read_text(), START, END, f"\n{text(state)}\n"))
    return True


def _perils(state: State) -> list[str]:
    """Faults that may remove acknowledged records; the missing records are those that the log lost."""
    lines = ["| peril | acknowledged | gone with the log | reported to readers | s |", "|---|---:|---:|---:|---:|"]
    for name, one in state.perils.items():
        if one["skipped"]:
            lines.append(f"| {name} | not played: {one['skipped']} | | | |")
        else:
            lines.append(
                f"| {name} | {one['acked']:,} | {one['missing']:,} | {one['reported']:,} | {one['seconds']:.0f} |"
            )
    return [*lines, ""]


def _memory(state: State) -> str:
    reported = sorted(state.memory.items())
    return (
        ", ".join(f"{name} {of['begun']:.0f}, {of['end']:.0f}, {of['peak']:.0f}" for name, of in reported)
        or "not reported"
    )


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items())) or "none"


def _errors(tally: Tally) -> str:
    return _counts({name.removeprefix("error "): count for name, count in tally.errors.items()})
