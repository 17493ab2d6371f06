"""Counts of requests and responses, for every API and version that the server advertises."""

from collections import Counter
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from kafwire.errors import ERROR_CODES
from kafwire.testing.fuzzer import execute
from kafwire.testing.fuzzer.execute import Transcript
from kafwire.testing.fuzzer.rules import walk
from kafwire.testing.fuzzer.safety import request_class, request_name
from kafwire.testing.fuzzer.world import World

_SLOW_SECONDS = 1.0
_SLOW_FACTOR = 50
_SAMPLES = 2000


@dataclass
class Pair:
    """One version of one API. `damaged` requests are counted in `sent` too."""

    sent: int = 0
    ok: int = 0
    failed: int = 0
    closed: int = 0
    silent: int = 0
    no_response: int = 0
    damaged: int = 0
    errors: Counter[int] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)


class Coverage:
    """Counts by (API, version)."""

    def __init__(self, world: World) -> None:
        self.pairs: dict[tuple[str, int], Pair] = {}
        self.unknown: dict[int, tuple[int, int]] = {}
        self.lacking: dict[str, list[int]] = {}
        self.slow: list[tuple[float, str, int, int]] = []
        for key, (low, high) in sorted(world.ranges.items()):
            name = request_name(key)
            if name is None:
                self.unknown[key] = (low, high)
                continue
            for version in world.versions(name):
                self.pairs[name, version] = Pair()
            found = request_class(name)
            beyond = [v for v in range(low, high + 1) if not found.oldest_version <= v <= found.max_stable_version]
            if beyond:
                self.lacking[name] = beyond

    def add(self, transcript: Transcript) -> None:
        """Count a case."""
        for exchange in transcript.exchanges:
            step = transcript.case.steps[exchange.step]
            pair = self.pairs.setdefault((step.api, step.version), Pair())
            pair.sent += 1
            pair.damaged += bool(step.damage)
            if exchange.status == execute.RESPONDED:
                codes = error_codes(exchange.response)
                pair.errors.update(codes)
                if exchange.response is not None and not codes:
                    pair.ok += 1
                else:
                    pair.failed += 1
                spent = exchange.seconds - exchange.waits
                if len(pair.seconds) < _SAMPLES:
                    pair.seconds.append(max(0.0, exchange.seconds))
                if spent > _SLOW_SECONDS and spent > _SLOW_FACTOR * median(pair.seconds):
                    self.slow.append((spent, step.api, step.version, transcript.case.number))
            elif exchange.status in (execute.CLOSED, execute.REFUSED):
                pair.closed += 1
            elif exchange.status == execute.NONE:
                pair.no_response += 1
            else:
                pair.silent += 1

    @property
    def sent(self) -> int:
        """The number of all requests."""
        return sum(pair.sent for pair in self.pairs.values())

    def to_json(self) -> dict[str, Any]:
        """Return the counts as JSON."""
        return {
            "requests": self.sent,
            "pairs": len(self.pairs),
            "pairs_sent": sum(pair.sent > 0 for pair in self.pairs.values()),
            "pairs_answered": sum(pair.ok + pair.failed > 0 for pair in self.pairs.values()),
            "pairs_ok": sum(pair.ok > 0 for pair in self.pairs.values()),
            "unknown_apis": {str(key): list(versions) for key, versions in self.unknown.items()},
            "versions_kafwire_lacks": self.lacking,
            "slow": [
                {"seconds": round(seconds, 3), "api": api, "version": version, "case": number}
                for seconds, api, version, number in sorted(self.slow, reverse=True)[:20]
            ],
            "by_pair": [
                {
                    "api": api,
                    "version": version,
                    "sent": pair.sent,
                    "damaged": pair.damaged,
                    "ok": pair.ok,
                    "with_errors": pair.failed,
                    "closed": pair.closed,
                    "silent": pair.silent,
                    "no_response": pair.no_response,
                    "error_codes": {_code(code): count for code, count in sorted(pair.errors.items())},
                    "median_ms": round(1000 * median(pair.seconds), 2) if pair.seconds else None,
                }
                for (api, version), pair in self.pairs.items()
            ],
        }

    def table(self) -> str:
        """Return a table for people: one line for each API, with all its versions."""
        lines = [f"{'API':<30} {'versions':>9} {'sent':>7} {'ok':>7} {'errors':>7} {'closed':>7} {'silent':>7}  codes"]
        for api in dict.fromkeys(api for api, _ in self.pairs):
            mine = {version: pair for (name, version), pair in self.pairs.items() if name == api}
            codes: Counter[int] = Counter()
            for pair in mine.values():
                codes.update(pair.errors)
            versions = f"{min(mine)}-{max(mine)}"
            counted = ("sent", "ok", "failed", "closed", "silent")
            sums = [sum(getattr(p, name) for p in mine.values()) for name in counted]
            never = [str(version) for version, pair in mine.items() if not pair.sent]
            seen = " ".join(str(code) for code, _ in codes.most_common(12))
            note = f"  never sent: {','.join(never)}" if never and sums[0] else ""
            numbers = "".join(f" {number:>7}" for number in sums)
            lines.append(f"{api:<30} {versions:>9}{numbers}  {seen}{note}")
        lines.extend(f"api key {key} ({low}-{high}): not known to kafwire" for key, (low, high) in self.unknown.items())
        lines.extend(f"{api}: versions {versions} not known to kafwire" for api, versions in self.lacking.items())
        for seconds, api, version, number in sorted(self.slow, reverse=True)[:10]:
            lines.append(f"slow: {api} {version} took {seconds:.2f} s in case {number}")
        return "\n".join(lines)


def error_codes(response: Any) -> set[int]:
    """Return the error codes of a response that are not 0."""
    if response is None:
        return set()
    return {value for _, name, value in walk(response) if name.endswith("error_code") and value}


def _code(code: int) -> str:
    known = ERROR_CODES.get(code)
    return f"{code} {known.name}" if known is not None else str(code)
