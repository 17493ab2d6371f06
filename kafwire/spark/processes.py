"""What a Python worker process keeps between tasks: its clients and producers, made after the fork.

Spark forks its workers from a daemon and uses them again for later tasks. A client belongs to the process that made it,
so the process id is part of the key, and what a parent made is never touched here.
"""

from __future__ import annotations

import contextlib
import os
import socket
from typing import TYPE_CHECKING, Any

from kafwire.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafwire import Client, Producer

_clients: dict[tuple[object, ...], Client] = {}
_producers: dict[tuple[object, ...], Producer] = {}


def client(options: Mapping[str, Any]) -> Client:
    """This process's client for `options`; its connections serve one task after the other."""
    import kafwire

    key = _key(options)
    if key not in _clients:
        with naming_this_host():
            _clients[key] = kafwire.Client(**options)
    return _clients[key]


def producer(options: Mapping[str, Any]) -> Producer:
    """This process's producer for `options`."""
    import kafwire

    key = _key(options)
    if key not in _producers:
        with naming_this_host():
            _producers[key] = kafwire.Producer(**options)
    return _producers[key]


@contextlib.contextmanager
def naming_this_host() -> Iterator[None]:
    """Have errors of a client that is made say where: the files that options name are looked for on each node."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"on the host {socket.gethostname()}: {error}") from None


def forget_producer(options: Mapping[str, Any]) -> None:
    """Close this process's producer for `options` after a failure, with all it holds; the next task makes another."""
    found = _producers.pop(_key(options), None)
    if found is not None:
        # The task fails already, by an error that says more than one from here could.
        with contextlib.suppress(Exception):
            found.close(0.0)


def _key(options: Mapping[str, Any]) -> tuple[object, ...]:
    return (os.getpid(), *sorted(options.items()))
