"""Users with SCRAM credentials: describe, set and delete them. See KIP-554.

A broker gets salted passwords only. No text of an error and no `repr` shows a password.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

from kafwire import protocol
from kafwire.admin.arguments import names_of, text_of, timeout_ms_of
from kafwire.admin.asking import error_of
from kafwire.admin.outcomes import Outcomes
from kafwire.admin.requests import AdminRequests
from kafwire.config.sasl_mechanisms import SCRAM_NUMBERS
from kafwire.errors import ConfigError, KafkaError
from kafwire.integers import integer
from kafwire.lazy_dataclass import dataclass
from kafwire.runtime.interfaces import Work
from kafwire.secret import Secret
from kafwire.security.scram_passwords import LEAST_ITERATIONS, MOST_ITERATIONS, new_salt, salted_password

__all__ = ["ScramCredential", "ScramDeletion", "ScramUpsertion", "UserCalls"]

THREAD = "kafwire-scram"
UNKNOWN = "UNKNOWN"  # a mechanism of a newer Kafka


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """A credential of a user, without its secrets.

    Args:
        mechanism: "SCRAM-SHA-256" or "SCRAM-SHA-512"; "UNKNOWN": one that only a newer Kafka has.
        iterations: how often the hash was applied to the password.

    Example:
        >>> from kafwire.admin import ScramCredential
        >>> ScramCredential("SCRAM-SHA-512", 4096).mechanism
        'SCRAM-SHA-512'
    """

    __module__ = "kafwire.admin"
    mechanism: str
    iterations: int


@dataclass(frozen=True, slots=True)
class ScramUpsertion:
    """The password of a user for a mechanism: a new one, or another one.

    Args:
        user: the user's name, without "User:". Kafka's brokers authenticate names in ASCII only.
        mechanism: "SCRAM-SHA-256" or "SCRAM-SHA-512".
        password: the password. It becomes a `kafwire.Secret`, so the upsertion cannot be pickled.
        iterations: how often the hash is applied, 4096 to 16384. More make a stolen credential harder to guess, and
            each login slower.
        salt: the salt; None: a random one.

    Raises:
        ConfigError: a value is wrong.

    Example:
        >>> from kafwire.admin import ScramUpsertion
        >>> ScramUpsertion("alice", "SCRAM-SHA-512", "swordfish")
        ScramUpsertion(user='alice', mechanism='SCRAM-SHA-512', password=Secret('***'), iterations=4096)
    """

    __module__ = "kafwire.admin"
    user: str
    mechanism: str
    password: Secret | str
    iterations: int = LEAST_ITERATIONS
    salt: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Check the values, and hide the password."""
        _check(self.user, self.mechanism)
        object.__setattr__(self, "password", _hidden(self.user, self.password))
        number = integer(self.iterations)
        if number is None or not LEAST_ITERATIONS <= number <= MOST_ITERATIONS:
            raise ConfigError(f"user {self.user!r}: iterations: Kafka takes {LEAST_ITERATIONS} to {MOST_ITERATIONS}")
        if self.salt is not None and (not isinstance(self.salt, bytes) or not self.salt):
            raise ConfigError(f"user {self.user!r}: salt must be bytes, at least one; None: a random salt")


@dataclass(frozen=True, slots=True)
class ScramDeletion:
    """The deletion of a user's credential for a mechanism.

    Args:
        user: the user's name, without "User:".
        mechanism: "SCRAM-SHA-256" or "SCRAM-SHA-512".

    Raises:
        ConfigError: a value is wrong.

    Example:
        >>> from kafwire.admin import ScramDeletion
        >>> ScramDeletion("alice", "SCRAM-SHA-256").user
        'alice'
    """

    __module__ = "kafwire.admin"
    user: str
    mechanism: str

    def __post_init__(self) -> None:
        """Check the values."""
        _check(self.user, self.mechanism)


Alteration = ScramUpsertion | ScramDeletion


class UserCalls(AdminRequests):
    """The calls about SCRAM credentials."""

    def describe_user_scram_credentials(
        self, users: Iterable[str] | None, *, timeout: float | None
    ) -> Work[Outcomes[str, list[ScramCredential]]]:
        """Describe the credentials of users; None: of all users that have some."""
        limit_ms = timeout_ms_of(timeout)
        what, api = "describing SCRAM users", "DescribeUserScramCredentials"
        request: Any = protocol.DescribeUserScramCredentialsRequest
        route = self._any()

        async def found(broker: int, message: Any) -> Mapping[str, list[ScramCredential] | KafkaError]:
            response = await route.call(broker, message)
            error = error_of(response, what, api)
            if error is not None:
                raise error
            return {
                each.user: error_of(each, f"describing the SCRAM credentials of {each.user!r}", api) or _known(each)
                for each in response.results
            }

        if users is not None:
            names = names_of("users", users, 'describe_user_scram_credentials(["alice"])')

            async def send(broker: int, asked: list[str]) -> Mapping[str, list[ScramCredential] | KafkaError]:
                return await found(broker, request(users=[request.UserName(name=name) for name in asked]))

            return self._work(names, route, send, what, limit_ms)

        async def send_all(broker: int) -> Mapping[str, list[ScramCredential] | KafkaError]:
            return await found(broker, request(users=None))

        every = self._single(route, send_all, what, limit_ms)

        async def describe_all() -> Outcomes[str, list[ScramCredential]]:
            by_user = await every()
            return Outcomes(
                {user: each for user, each in by_user.items() if not isinstance(each, KafkaError)},
                {user: each for user, each in by_user.items() if isinstance(each, KafkaError)},
            )

        return describe_all

    def alter_user_scram_credentials(
        self, alterations: Iterable[Alteration], *, timeout: float | None
    ) -> Work[Outcomes[str, None]]:
        """Set and delete credentials. Passwords are salted once, in a thread."""
        changes = _by_user(alterations)
        limit_ms = timeout_ms_of(timeout)
        request: Any = protocol.AlterUserScramCredentialsRequest
        route = self._any()

        async def alter() -> Outcomes[str, None]:
            try:
                made = await self._cluster.engine.in_thread(THREAD, _messages, changes)
            except RuntimeError:
                raise KafkaError("passwords cannot be salted: the process cannot start a thread") from None

            async def send(broker: int, asked: list[str]) -> Mapping[str, KafkaError | None]:
                parts = [made[user] for user in asked]
                message = request(
                    deletions=[each for each in parts if isinstance(each, request.ScramCredentialDeletion)],
                    upsertions=[each for each in parts if isinstance(each, request.ScramCredentialUpsertion)],
                )
                response = await route.call(broker, message)
                return {
                    each.user: error_of(
                        each, f"altering the SCRAM credential of {each.user!r}", "AlterUserScramCredentials"
                    )
                    for each in response.results
                }

            return await self._work(changes, route, send, "altering SCRAM users", limit_ms)()

        return alter


def _check(user: Any, mechanism: Any) -> None:
    """Check the values beside a password. No error shows them: one may be the password, in a wrong place."""
    text_of("user", user)
    if not isinstance(mechanism, str) or mechanism not in SCRAM_NUMBERS:
        raise ConfigError(f"user {user!r}: the mechanism must be one of {', '.join(SCRAM_NUMBERS)}")


def _hidden(user: str, password: Any) -> Secret:
    """Check a password, without showing it."""
    if not isinstance(password, str | Secret):
        raise ConfigError(f"user {user!r}: the password must be text, or a kafwire.Secret")
    secret = Secret(password)
    text = secret.reveal()
    if not text:
        raise ConfigError(f"user {user!r}: the password is empty")
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise ConfigError(f"user {user!r}: the password has a NUL character or an unpaired surrogate")
    return secret


def _by_user(alterations: Any) -> dict[str, Alteration]:
    """Return the alterations by user."""
    example = 'alter_user_scram_credentials([ScramUpsertion("alice", "SCRAM-SHA-512", password)])'
    if isinstance(alterations, Alteration) or not isinstance(alterations, Iterable):
        raise ConfigError(f"alterations: write a list: {example}")
    found: dict[str, Alteration] = {}
    for each in alterations:
        if not isinstance(each, Alteration):
            raise ConfigError(f"alterations: a {type(each).__name__} is neither ScramUpsertion nor ScramDeletion")
        if each.user in found:
            raise ConfigError(f"user {each.user!r}: Kafka takes one alteration of a user at a time: make two calls")
        found[each.user] = each
    return found


def _messages(changes: Mapping[str, Alteration]) -> dict[str, Any]:
    """Return the part of a request for each user, with its password salted."""
    request: Any = protocol.AlterUserScramCredentialsRequest
    made = {}
    for user, each in changes.items():
        number = SCRAM_NUMBERS[each.mechanism]
        if isinstance(each, ScramDeletion):
            made[user] = request.ScramCredentialDeletion(name=user, mechanism=number)
            continue
        salt = new_salt() if each.salt is None else each.salt
        made[user] = request.ScramCredentialUpsertion(
            name=user,
            mechanism=number,
            iterations=each.iterations,
            salt=salt,
            salted_password=salted_password(each.mechanism, Secret(each.password), salt, each.iterations),
        )
    return made


def _known(result: Any) -> list[ScramCredential]:
    names = {number: name for name, number in SCRAM_NUMBERS.items()}
    return [ScramCredential(names.get(each.mechanism, UNKNOWN), each.iterations) for each in result.credential_infos]
