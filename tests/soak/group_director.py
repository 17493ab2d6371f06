"""The events of a group: members join, leave, are killed, stand still; and whether it goes on after each of these."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable

from tests.soak.group_judgement import GroupProgress
from tests.soak.group_load import Load
from tests.soak.group_processes import MemberProcess

SESSION_MS = 2_000
# A partition that has not gone on so long after its group was left alone is stuck.
STUCK_S = 60.0
_LOOK_S = 0.05
_AT_ONCE = 0.3  # of the rebalances come before the one before them is over


class Group:
    """A group's members, and the thread that forces its rebalances."""

    def __init__(self, name: str, members: list[MemberProcess], load: Load, seed: int) -> None:
        self.name = name
        self.members = members
        self.progress = GroupProgress()
        self.forced: Counter[str] = Counter()
        self.stalls: defaultdict[str, list[float]] = defaultdict(list)
        self.violations: list[str] = []
        self.struck_at = 0.0
        self._load = load
        self._chance = random.Random(f"{seed}/{name}")
        self._lock = threading.Lock()

    def look(self) -> None:
        """Take in what members wrote."""
        with self._lock:
            for member in self.members:
                member.look(self.progress)

    def run(self, rebalances: int, stopping: Callable[[], bool]) -> None:
        """Force so many, each on members that are as the one before has left them."""
        try:
            self.members[0].join()
            self.settle("begin")
            while self.forced.total() < rebalances and not stopping() and not self.violations:
                kind = self._event()
                if self._chance.random() < _AT_ONCE:
                    time.sleep(self._chance.random())
                else:
                    self.settle(kind)
            self.settle("end")
        except (RuntimeError, OSError) as error:
            self.violations.append(str(error))

    def settle(self, kind: str) -> None:
        """Wait until all that is in the logs now is processed."""
        began = time.monotonic()
        ends = dict(self._load.ends[self.name])
        while True:
            self.look()
            lacking = self.progress.lacks(ends)
            if not lacking:
                break
            for member in self.members:
                member.check()
            now = time.monotonic()
            if now - max(began, self.struck_at) > STUCK_S or now - began > 3 * STUCK_S:
                self._stuck(kind, lacking)
                return
            time.sleep(_LOOK_S)
        struck = " while nodes are struck" if self.struck_at > began else ""
        self.stalls[kind + struck].append(time.monotonic() - began)

    def _stuck(self, kind: str, lacking: dict[int, tuple[int, int]]) -> None:
        members = [f"{each.name} {'in' if each.is_in else 'out'}" for each in self.members if each.runs]
        text = f"stuck after {kind!r}: partitions {lacking}, members {members}"
        self.violations.append("\n".join([text, *(each.where() for each in self.members if each.is_in)]))

    def _event(self) -> str:
        joined = [each for each in self.members if each.is_in]
        out = [each for each in self.members if not each.is_in]
        kinds = ["pause", "swap"] if out else ["pause"]
        if len(joined) > 1:
            kinds += ["leave", "kill", "kill"]
        if out:
            kinds += ["join"] * (3 if len(joined) == 1 else 1)
        kind = self._chance.choice(kinds)
        self.forced[kind] += 1
        one = self._chance.choice(joined)
        match kind:
            case "join":
                self._chance.choice(out).join()
            case "leave":
                one.leave()
            case "kill":
                one.kill()
            case "swap":
                self._chance.choice(out).join()
                one.leave()
            case "pause":
                one.pause()
                time.sleep(SESSION_MS / 1000 * (1.2 + self._chance.random()))
                one.resume()
        return kind

    def close(self) -> None:
        """Let all members leave."""
        for member in self.members:
            try:
                member.close()
            except RuntimeError as error:
                self.violations.append(str(error))
        self.look()
