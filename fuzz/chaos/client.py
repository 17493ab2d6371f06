"""`python -m fuzz.chaos.client SEED SECONDS SERVERS [ACTOR ...]`: the program that runs under a sanitizer.

SERVERS is the first line of `server`. The last line of the output is JSON: the counts, and what went wrong.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import sys
import time
import traceback

from fuzz.chaos.actors import PROGRAMS, Actor, Stage
from kafwire.config import ClientConfig, from_config

ACTORS = {"produce": 4, "consume": 3, "stream": 2, "scan": 4, "collect": 1, "run_async": 1, "share": 1}
END_S = 60  # for the last programs to end once the time is up


def compute(stage: Stage) -> None:
    """Keep the GIL busy, so that readers decode ahead."""
    value = 1
    while not stage.is_over:
        for number in range(200_000):  # longer than a thread may keep the GIL when another one wants it
            value = (value * 31 + number) & 0xFFFF
        time.sleep(0.1)


def main() -> int:
    """Run the actors; 1: one of them hangs, or failed by another error than expected."""
    seed, seconds = int(sys.argv[1]), float(sys.argv[2])
    plain, secured, options = json.loads(sys.argv[3])
    plain_options = {"bootstrap_servers": plain}
    tls_options = from_config(ClientConfig, {"bootstrap.servers": secured, **options}) if secured else plain_options
    stage = Stage([plain_options, plain_options, tls_options], time.monotonic() + seconds, seed)
    actors = [Actor(stage, name, number) for name in sys.argv[4:] or PROGRAMS for number in range(ACTORS[name])]
    gc.freeze()  # the collector is quick then, and thorough where actors call it
    for actor in actors:
        actor.start()
    compute(stage)
    problems = []
    until = time.monotonic() + END_S
    for actor in actors:
        actor.join(max(0.0, until - time.monotonic()))
        if actor.is_alive():
            problems.append(f"{actor.name} hangs")
        if actor.problem is not None:
            problems.append(f"{actor.name}: " + "".join(traceback.format_exception(actor.problem)))
    if any(actor.is_alive() for actor in actors):
        faulthandler.dump_traceback()
    print(json.dumps([dict(sorted(stage.counts.items())), problems]), flush=True)
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
