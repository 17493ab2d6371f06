"""The whole run: creates cases from the seed, sends them, keeps the finds, stays within the budget."""

import contextlib
import random
import subprocess
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TextIO

from kafwire import protocol
from kafwire.errors import KafkaError
from kafwire.testing.fuzzer import case as cases
from kafwire.testing.fuzzer import damage, execute, oddities
from kafwire.testing.fuzzer.anatomy import dissect
from kafwire.testing.fuzzer.case import Case, Step
from kafwire.testing.fuzzer.connection import CLIENT_ID, Target
from kafwire.testing.fuzzer.coverage import Coverage
from kafwire.testing.fuzzer.execute import ForbiddenError, Transcript
from kafwire.testing.fuzzer.finds import Find
from kafwire.testing.fuzzer.generate import Generator
from kafwire.testing.fuzzer.judge import CLOSED, HANG, UNREADABLE, Violation, judge
from kafwire.testing.fuzzer.late_response import late_seconds
from kafwire.testing.fuzzer.safety import addresses, allowed, remote_addresses, request_class, request_name
from kafwire.testing.fuzzer.scenarios import with_scenario
from kafwire.testing.fuzzer.shrink import features, shrink
from kafwire.testing.fuzzer.world import ask_versions, survey

DIED = "died"
_DIED_PROMISE = "a server goes on serving others, whatever one connection sends"
_WEIGHTS = {cases.VALID: 35, cases.ODD: 30, cases.DAMAGED: 25, cases.CONNECTION: 10}
_SHRUNK_OF_A_KIND = 4
_HANGS_OF_A_KIND = 2  # each costs its time-out many times
_REPEATS = 3
_RESURVEY_EVERY = 2000
_PROGRESS_SECONDS = 5.0
REVIVAL_SECONDS = 30.0
_LATE_LOOKED_AT = 2
_SUSPECTS = 8
DEATH_SECONDS = 0.7
_DEATHS_OF_A_KIND = 2
_STANDARD_ERROR = 2
# APIs that wait for others, or have no response: not for a queue of requests on one connection.
_NOT_PIPELINED = {"JoinGroup", "SyncGroup", "Produce", "SaslHandshake", "SaslAuthenticate"}


class RemoteError(Exception):
    """The address is not loopback."""


@dataclass
class Options:
    """The options of a campaign.

    Args:
        seed: the seed of all cases.
        only_case: the number of the one case to send; None sends all.
        seconds: the duration.
        requests: the most requests that it sends; None: no limit.
        apis: the APIs to send; none: all.
        exclude: the APIs not to send.
        destructive: send cases that may change the server's data.
        timeout: seconds to wait for each response.
        shrink_seconds: the longest time to make a find smaller.
        late_seconds: the longest wait for a late response, before it counts as missing.
        revive: starts a dead server again.
        known: returns True if a case's violation is known of this server; a known one is no find.
        found: is called with each new find.
        progress: the stream for the progress.

    Example:
        >>> from kafwire.testing.fuzzer import Options
        >>> Options(seed=7, requests=1000).seconds
        60.0
    """

    seed: int = 1
    only_case: int | None = None
    seconds: float = 60.0
    requests: int | None = None
    apis: frozenset[str] = frozenset()
    exclude: frozenset[str] = frozenset()
    destructive: bool = False
    timeout: float = 5.0
    shrink_seconds: float = 40.0
    late_seconds: float = 30.0
    revive: Callable[[], None] | None = None
    known: Callable[[Case, Violation], bool] | None = None
    found: Callable[[Find], object] | None = None
    progress: TextIO | None = None


@dataclass
class Result:
    """The result of a campaign."""

    finds: list[Find] = field(default_factory=list)
    cases: int = 0
    seconds: float = 0.0
    forbidden: int = 0
    dead: bool = False


def resolve(address: str, *, allow_remote: bool, timeout: float = 5.0) -> Target:
    """Return the target at "host:port". Raises `RemoteError` for addresses beyond loopback without `allow_remote`."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"{address!r} is not HOST:PORT")
    resolved = addresses(host.strip("[]"), int(port))
    remote = remote_addresses(resolved)
    if remote and not allow_remote:
        raise RemoteError(
            f"{address} is not (only) on this machine: {', '.join(remote)}. A fuzzer can harm a server; "
            "pass --allow-remote if this one may be harmed"
        )
    family, found = resolved[0]
    return Target(family, found, timeout)


class Campaign:
    """Fuzzes one server. The constructor surveys the server.

    Args:
        target: the server.
        options: its options.

    Raises:
        KafkaError: the server cannot be reached, or does not speak the protocol.

    Example:
        >>> from kafwire.testing.fuzzer import Campaign, Options
        >>> from kafwire.testing.fuzzer.campaign import resolve
        >>> target = resolve(cluster.direct, allow_remote=False)
        >>> campaign = Campaign(target, Options(seed=7, requests=20, apis=frozenset({"ApiVersions"})))
        >>> campaign.run().dead
        False
    """

    def __init__(self, target: Target, options: Options) -> None:
        """Survey the server. Raises `KafkaError` if it cannot be reached or does not speak the protocol."""
        self.target = target
        self.options = options
        self.world = survey(target, destructive=options.destructive)
        self.coverage = Coverage(self.world)
        self.pairs = self._pairs()
        self.result = Result()
        self._kept: dict[tuple[Any, ...], Find] = {}
        self._slow: Counter[str] = Counter()
        self._recent: deque[Case] = deque(maxlen=_SUSPECTS)
        self._alike: dict[tuple[str, str, str], list[Find]] = {}

    def _pairs(self) -> list[tuple[str, int]]:
        chosen: list[tuple[str, int]] = []
        for key in sorted(self.world.ranges):
            api = request_name(key)
            if api is None or not allowed(api, destructive=self.options.destructive):
                continue
            if (self.options.apis and api not in self.options.apis) or api in self.options.exclude:
                continue
            chosen.extend((api, version) for version in self.world.versions(api))
        random.Random(self.options.seed).shuffle(chosen)
        return chosen

    # -- cases

    def case(self, number: int) -> Case:
        """Return a case of the seed.

        Args:
            number: the case's number.

        Returns:
            The case.
        """
        rng = random.Random(f"{self.options.seed}:{number}")
        api, version = self.pairs[number % len(self.pairs)]
        first_round = number < len(self.pairs)
        kind = cases.VALID if first_round else rng.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
        if kind == cases.CONNECTION and api in _NOT_PIPELINED:
            kind = cases.VALID
        message = Generator(rng, self.world, api, version).request()
        if kind == cases.ODD:
            message = oddities.odd(rng, api, version, message, destructive=self.options.destructive)
        target = Step(api, version, message)
        delivery, pieces = cases.TURNS, tuple[int, ...]()
        if kind == cases.CONNECTION:
            steps, delivery, pieces = self._many(rng, target)
        else:
            steps = with_scenario(rng, self.world, target)
            if kind == cases.DAMAGED:
                steps = (*steps[:-1], self._damaged(rng, steps[-1]))
        return Case(self.options.seed, number, kind, steps, delivery, pieces, self.world.topic_ids())

    def _many(self, rng: random.Random, target: Step) -> tuple[tuple[Step, ...], str, tuple[int, ...]]:
        usable = [pair for pair in self.pairs if pair[0] not in _NOT_PIPELINED]
        steps = [target]
        for _ in range(rng.choice((0, 1, 2, 5, 10))):
            api, version = rng.choice(usable)
            steps.append(Step(api, version, Generator(rng, self.world, api, version).request()))
        delivery = rng.choice((cases.PIPELINED, cases.JOINED, cases.BYTEWISE, cases.SPLIT, cases.HALF_CLOSED))
        pieces = tuple(rng.randrange(4096) for _ in range(4)) if delivery == cases.SPLIT else ()
        return tuple(steps), delivery, pieces

    def _damaged(self, rng: random.Random, step: Step) -> Step:
        frame = protocol.encode_request(step.message, step.version, 0, CLIENT_ID)
        spans = dissect(request_class(step.api), step.version, frame)
        return Step(step.api, step.version, step.message, step.binds, damage.choose(rng, frame, spans))

    # -- the run

    def run(self) -> Result:
        """Run until the budget is used up, Ctrl-C is pressed, or the server is dead for good.

        Returns:
            The result.
        """
        began = time.monotonic()
        numbers: Iterable[int] = _count() if self.options.only_case is None else [self.options.only_case]
        if not self.pairs:
            return self.result
        with contextlib.suppress(KeyboardInterrupt):
            self._all(numbers, began)
        self.result.seconds = time.monotonic() - began
        return self.result

    def _all(self, numbers: Iterable[int], began: float) -> None:
        last = began
        for number in numbers:
            spent = time.monotonic() - began
            over = self.options.requests is not None and self.coverage.sent >= self.options.requests
            if self.options.only_case is None and (spent >= self.options.seconds or over):
                break
            if time.monotonic() - last > _PROGRESS_SECONDS:
                last = time.monotonic()
                self._say(f"{spent:.0f} s, {self.coverage.sent} requests, {len(self.result.finds)} finds")
            if number and number % _RESURVEY_EVERY == 0:
                self._survey_again()
            self._one(self.case(number))
            if self.result.dead:
                break

    def _say(self, text: str) -> None:
        if self.options.progress is not None:
            print(text, file=self.options.progress, flush=True)

    def _survey_again(self) -> None:
        """Survey the topics again, as they change. The versions stay, for a rule compares them with the first ones."""
        try:
            found = survey(self.target, destructive=self.options.destructive)
        except KafkaError as error:
            self._say(f"the survey could not be repeated: {error}")
            return
        self.world.topics = found.topics

    def _run(self, case: Case) -> Transcript | None:
        try:
            return execute.execute(
                self.target, case, destructive=self.options.destructive, topics=self.world.topic_ids()
            )
        except ForbiddenError:
            self.result.forbidden += 1
        except (damage.NotApplicableError, KafkaError):
            # A smaller request that cannot be encoded, or lacks the place of the damage, is no candidate.
            pass
        return None

    def _one(self, case: Case) -> None:
        transcript = self._run(case)
        if transcript is None:
            return
        self.result.cases += 1
        self.coverage.add(transcript)
        violations = judge(transcript, self.world)
        if (case.damaged or violations) and not self._alive():
            self._dead(case, transcript)
            return
        self._recent.append(case)
        for violation in violations:
            if self.options.known is None or not self.options.known(case, violation):
                self._found(case, transcript, violation)

    def _alive(self) -> bool:
        try:
            ask_versions(self.target)
        except KafkaError:
            return False
        return True

    def _revived(self) -> bool:
        if self.options.revive is not None:
            self.options.revive()
        deadline = time.monotonic() + REVIVAL_SECONDS
        while not self._alive():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True

    def _dead(self, case: Case, transcript: Transcript) -> None:
        """Find the case that killed the server: it may die late, so send the last cases again, newest first."""
        if not self._revived():
            violation = self._death(case)
            self._say(f"find: {DIED}, at or before case {case.number}; it does not come back")
            self.result.dead = True
            self._keep(case, transcript, violation, "0 of 0", shrunk=False)
            return

        def dies(candidate: Case) -> bool:
            if self._run(candidate) is None:
                return False
            deadline = time.monotonic() + DEATH_SECONDS
            while self._alive():
                if time.monotonic() > deadline:
                    return False
                time.sleep(0.05)
            return self._revived()

        for suspect in [case, *reversed(self._recent)]:
            if dies(suspect):
                self._say(f"find: {DIED}, {suspect.target.api} version {suspect.target.version}, case {suspect.number}")
                self._recent.clear()
                if self._alike_deaths(suspect) < _DEATHS_OF_A_KIND:
                    self._confirm(suspect, Transcript(suspect), self._death(suspect), dies)
                return
        self._say(f"find: {DIED}, at or before case {case.number}; none of the last cases alone does it again")
        self._keep(case, transcript, self._death(case), f"0 of {_REPEATS}", shrunk=False)

    def _death(self, case: Case) -> Violation:
        return Violation(DIED, len(case.steps) - 1, "the server takes no connections any more", _DIED_PROMISE)

    def _alike_deaths(self, case: Case) -> int:
        """Count a death with the finds of the same API, and return the number of these."""
        same = [find for find in self.result.finds if find.violation.rule == DIED and find.api == case.target.api]
        if len(same) >= _DEATHS_OF_A_KIND:
            same[0].count += 1
            same[0].versions.add(case.target.version)
        return len(same)

    # -- finds

    def _found(self, case: Case, transcript: Transcript, violation: Violation) -> None:
        step = case.steps[violation.step]
        alike = self._alike.setdefault((violation.rule, step.api, violation.shape), [])
        if len(alike) >= (_HANGS_OF_A_KIND if violation.rule == HANG else _SHRUNK_OF_A_KIND):
            alike[0].count += 1
            alike[0].versions.add(step.version)
            return
        if violation.rule == HANG and self._slow[step.api] >= _LATE_LOOKED_AT:
            return
        self._say(f"find: {violation.rule}, {step.api} version {step.version}, case {case.number}: {violation.detail}")

        def again(candidate: Case) -> bool:
            ran = self._run(candidate)
            return ran is not None and any(
                (found.rule, candidate.steps[found.step].api, found.shape)
                == (violation.rule, step.api, violation.shape)
                for found in judge(ran, self.world)
            )

        find = self._confirm(case, transcript, violation, again)
        if find is not None:
            alike.append(find)

    def _confirm(
        self, case: Case, transcript: Transcript, violation: Violation, again: Callable[[Case], bool]
    ) -> Find | None:
        if violation.rule == HANG:
            patience, topics = self.options.late_seconds, self.world.topic_ids()
            late = late_seconds(self.target, case, patience, destructive=self.options.destructive, topics=topics)
            if late is not None:
                # The server responds, only slowly: not a broken promise, but worth a look.
                step = case.steps[violation.step]
                self._slow[step.api] += 1
                self.coverage.slow.append((late, step.api, step.version, case.number))
                self._say(f"no find: {step.api} version {step.version} responds after {late:.1f} s")
                return None
        times = tries = 0
        try:
            while tries < _REPEATS:
                tries += 1
                times += again(case)
            small = shrink(case, again, seconds=self.options.shrink_seconds) if times == _REPEATS else None
        except KeyboardInterrupt:
            # Ctrl-C ends the run, but keeps this find.
            self._keep(case, transcript, violation, f"{times} of {tries}", shrunk=False)
            raise
        if small is not None:
            if violation.rule == DIED:
                transcript = self._run(small) or transcript
                self._revived()
                return self._keep(small, transcript, self._death(small), f"{times} of {_REPEATS}", shrunk=True)
            ran = self._run(small)
            same = [
                found
                for found in (judge(ran, self.world) if ran is not None else [])
                if (found.rule, found.shape) == (violation.rule, violation.shape)
            ]
            if ran is not None and same:
                return self._keep(small, ran, same[0], f"{times} of {_REPEATS}", shrunk=True)
        return self._keep(case, transcript, violation, f"{times} of {_REPEATS}", shrunk=False)

    def _keep(self, case: Case, transcript: Transcript, violation: Violation, reproduced: str, *, shrunk: bool) -> Find:
        step = case.steps[violation.step]
        find = Find(
            violation,
            step.api,
            case,
            transcript,
            reproduced,
            shrunk,
            any(not allowed(each.api, destructive=False) for each in case.steps),
            (case.seed, case.number),
            {step.version},
        )
        key: tuple[Any, ...] = (violation.rule, step.api, violation.shape)
        if violation.rule in (CLOSED, HANG, UNREADABLE, DIED):
            key = (*key, case.kind, features(case))
        kept = self._kept.get(key)
        if kept is not None:
            kept.count += 1
            kept.versions.add(step.version)
            return kept
        self._kept[key] = find
        self.result.finds.append(find)
        if self.options.found is not None:
            self.options.found(find)
        return find

    def summary(self) -> dict[str, Any]:
        """Return the result as JSON.

        Returns:
            A dict that `json.dumps` takes.
        """
        return {
            "target": self.target.name,
            "seed": self.options.seed,
            "destructive": self.options.destructive,
            "seconds": round(self.result.seconds, 1),
            "cases": self.result.cases,
            "not_sent": self.result.forbidden,
            "server_dead": self.result.dead,
            "finds": [find.to_json() for find in self.result.finds],
            "coverage": self.coverage.to_json(),
        }


def _count() -> Iterable[int]:
    number = 0
    while True:
        yield number
        number += 1


def command_reviver(words: list[str]) -> Callable[[], None]:
    """Return a `revive` that runs a command."""

    def revive() -> None:
        subprocess.run(words, check=False, stdout=_STANDARD_ERROR)  # the summary alone uses the standard output

    return revive


__all__ = ["Campaign", "Options", "RemoteError", "Result", "command_reviver", "resolve"]
