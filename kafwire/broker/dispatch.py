"""The way of a request to the file that handles it, and the served versions.

A module of `api/` with a function `handle(state, request)` serves the API of its name, in all its stable versions. Its
docstring names the KIPs.
"""

from __future__ import annotations

import functools
import pkgutil
import re
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from kafwire import protocol
from kafwire.broker import api
from kafwire.broker.request import HANG_UP, LATER, NO_RESPONSE, Request, Response
from kafwire.broker.security import authorization, authorized_operations, login

if TYPE_CHECKING:
    from kafwire.broker.profiles import ServerProfile
    from kafwire.broker.state import ClusterState


class Api(NamedTuple):
    """A served API."""

    name: str
    key: int
    request_class: type[Any]
    versions: tuple[int, int]
    handle: Callable[[ClusterState, Request], Response]


@functools.cache
def served() -> dict[int, Api]:
    """Return all APIs that have a file, by their keys."""
    by_module = {_module_name(name.removesuffix("Request")): name for name in _requests()}
    found = {}
    for module in pkgutil.iter_modules(api.__path__):
        if module.name.startswith("_"):
            continue
        name = by_module[module.name]
        kind: Any = protocol.MESSAGES[name]
        its = import_module(f"{api.__name__}.{module.name}")
        versions = kind.min_version, kind.max_stable_version
        found[kind.api_key] = Api(name.removesuffix("Request"), kind.api_key, kind, versions, its.handle)
    return found


@functools.cache
def offered(profile: ServerProfile | None) -> dict[int, tuple[Api, tuple[int, int]]]:
    """Return the APIs that a server of this profile offers, by their keys, with the versions that it advertises.

    `Api.versions` is the part of the advertised range that the broker can serve; a request in another version closes
    the connection.
    """
    found = {}
    for key, its in served().items():
        # Kafka advertises Produce 0 for librdkafka, which compresses only for brokers with it (KAFKA-18659).
        usual = (0 if its.name == "Produce" else its.versions[0], its.versions[1])
        advertised = usual if profile is None else profile.range_of(its.name, usual)
        if advertised is not None:
            served_range = max(its.versions[0], advertised[0]), min(its.versions[1], advertised[1])
            found[key] = its._replace(versions=served_range), advertised
    return found


def _requests() -> list[str]:
    return [name for name in protocol.MESSAGES if name.endswith("Request")]


def _module_name(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def receive(state: ClusterState, request: Request, now_ms: float) -> None:
    """Handle a request. Its response is among the replies of the state at once, or later."""
    state.advance(now_ms)
    request.at_ms = now_ms
    state.requests.add(request)
    handle(state, request)


def handle(state: ClusterState, request: Request) -> None:
    """Handle a received request; a held one is handled again."""
    for interceptor in state.interceptors:
        response = interceptor(request)
        if response is not None:
            break
    else:
        response = _serve(state, request)
    if response is not LATER:
        state.reply(request, response)


def _serve(state: ClusterState, request: Request) -> Response:
    """Return the handler's response, or a refusal. The driver has checked the API and version of the request."""
    found = offered(state.profile).get(type(request.message).api_key)
    if found is None:
        return HANG_UP
    its = found[0]
    connection = request.connection
    if not connection.is_ready or connection.login is not None:
        refused = login.refuse(state, request, its.name)
        if refused is not None:
            return refused
    if state.authorizer.is_enabled:
        refused = authorization.check(state, request)
        if refused is not None:
            return refused
    authorized_operations.tell(state, request)
    response = its.handle(state, request)
    return NO_RESPONSE if its.name == "Produce" and request.message.acks == 0 else response
