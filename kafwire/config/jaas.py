"""The parser of Java's `sasl.jaas.config`: one login module, as options of kafwire. Imports errors and `Secret` only.

The grammar is that of Kafka's `JaasConfig`: `module flag name=value ... ;` with values in quotes, backslashes in them,
and comments. Errors name the refused part, and never a value, which may be a password.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kafwire.config.sasl_mechanisms import AWS_MSK_IAM, GSSAPI, MECHANISMS, OAUTHBEARER, PLAIN, SCRAM_SHA_256
from kafwire.errors import ConfigError
from kafwire.lazy_dataclass import dataclass
from kafwire.secret import Secret

FLAGS = ("required", "requisite", "sufficient", "optional")

_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


@dataclass(frozen=True)
class JaasEntry:
    """A parsed entry.

    `mechanisms` are the SASL mechanisms of its module; `options` are kafwire's, by name.
    """

    module: str
    mechanisms: tuple[str, ...]
    options: Mapping[str, Any]


@dataclass(frozen=True)
class _Module:
    """A login module: the options of kafwire that match its options."""

    options: Mapping[str, tuple[str, Callable[[str, str], Any]]]
    # Options that matter only to Java.
    ignored: frozenset[str] = frozenset()


def _text(name: str, value: str) -> str:
    del name
    return value


def _secret(name: str, value: str) -> Secret:
    del name
    return Secret(value)


def _boolean(name: str, value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise ConfigError(f"sasl.jaas.config: {name} is true or false")
    return value.lower() == "true"


_LOGIN = {"username": ("sasl_username", _text), "password": ("sasl_password", _secret)}
_MODULES = {
    PLAIN.login_module: _Module(_LOGIN),
    SCRAM_SHA_256.login_module: _Module({**_LOGIN, "tokenauth": ("sasl_tokenauth", _boolean)}),
    OAUTHBEARER.login_module: _Module(
        {
            "clientId": ("sasl_oauthbearer_client_id", _text),
            "clientSecret": ("sasl_oauthbearer_client_secret", _secret),
            "scope": ("sasl_oauthbearer_scope", _text),
        },
    ),
    GSSAPI.login_module: _Module(
        {
            "keyTab": ("sasl_kerberos_keytab", _text),
            "principal": ("sasl_kerberos_principal", _text),
            "serviceName": ("sasl_kerberos_service_name", _text),
        },
        frozenset({"debug", "doNotPrompt", "isInitiator", "refreshKrb5Config", "renewTGT", "storeKey"}),
    ),
    AWS_MSK_IAM.login_module: _Module({}),
}
# Words that need no quotes. To Java's tokenizer, a word that begins with a digit is a number, and any other character
# is a token itself.
_WORD = "[A-Za-z_$\u00a0-\U0010ffff][A-Za-z0-9_$.\u00a0-\U0010ffff-]*"
_KERBEROS_SWITCHES = ("useKeyTab", "useTicketCache")
_EXTENSION = r"(?s:extension_(.+))"


def parse_jaas(text: str | Secret) -> JaasEntry:
    """Parse the entry of `sasl.jaas.config`.

    Args:
        text: one entry, ended by a semicolon; no frame of an error has the text of a `Secret` as a local.

    Returns:
        Its module, mechanisms and options.

    Raises:
        ConfigError: the text is no such entry, or has an unknown module or option.

    Example:
        >>> text = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";'
        >>> parse_jaas(text).options
        {'sasl_username': 'u', 'sasl_password': Secret('***')}
    """
    text = Secret(text)
    try:
        return _read(text)
    except ConfigError as error:
        problem = str(error)
    # Raise here: the frames below have passwords as locals, which an error report may show.
    raise ConfigError(problem)


def _read(text: Secret) -> JaasEntry:
    name, given = _entry([*_tokens(text.reveal())])
    module = _MODULES.get(name)
    if module is None:
        known = ", ".join(known.rpartition(".")[2] for known in _MODULES)
        raise ConfigError(f"sasl.jaas.config: kafwire knows no login module {_shown(name)}, but {known}")
    options: dict[str, Any] = {}
    extensions: dict[str, str] = {}
    for option, value in given.items():
        if option in module.options:
            target, convert = module.options[option]
            options[target] = convert(option, value)
        elif name == OAUTHBEARER.login_module and (match := re.fullmatch(_EXTENSION, option)):
            extensions[match[1]] = value
        elif name == GSSAPI.login_module and option in _KERBEROS_SWITCHES:
            _boolean(option, value)
        elif option not in module.ignored:
            raise ConfigError(f"sasl.jaas.config: {name.rpartition('.')[2]} has no option {_shown(option)} here")
    if extensions:
        options["sasl_oauthbearer_extensions"] = extensions
    if name == GSSAPI.login_module:
        _check_kerberos(given, options)
    return JaasEntry(name, tuple(each.name for each in MECHANISMS if each.login_module == name), options)


def _check_kerberos(given: Mapping[str, str], options: dict[str, Any]) -> None:
    """Drop the keytab unless useKeyTab is true, as Java does."""
    uses = given.get("useKeyTab", "false").lower() == "true"
    if uses and "keyTab" not in given:
        raise ConfigError("sasl.jaas.config: useKeyTab=true needs keyTab")
    if not uses:
        options.pop("sasl_kerberos_keytab", None)


def _entry(tokens: list[tuple[str, str]]) -> tuple[str, dict[str, str]]:
    """Return the module and options of the only entry."""
    if not tokens:
        raise ConfigError("sasl.jaas.config is empty")
    kinds = [kind for kind, _ in tokens]
    if kinds[0] != "word":
        raise ConfigError("sasl.jaas.config does not begin with a login module")
    if len(tokens) < 2 or kinds[1] != "word" or tokens[1][1].lower() not in FLAGS:
        raise ConfigError(f"sasl.jaas.config: the login module must be followed by one of {', '.join(FLAGS)}")
    if ";" not in kinds:
        raise ConfigError("sasl.jaas.config does not end with a semicolon")
    end = kinds.index(";")
    if end != len(tokens) - 1:
        raise ConfigError("sasl.jaas.config has more than one entry, or something after the semicolon")
    options: dict[str, str] = {}
    rest = tokens[2:end]
    for at in range(0, len(rest), 3):
        part = rest[at : at + 3]
        if [kind for kind, _ in part] != ["word", "=", "word"]:
            before = f"after the option {_shown(rest[at - 3][1])}" if at else "after the flag"
            raise ConfigError(
                f"sasl.jaas.config: {before}, name=value is expected; values with special characters need quotes"
            )
        if part[0][1] in options:
            raise ConfigError(f"sasl.jaas.config has the option {_shown(part[0][1])} twice")
        options[part[0][1]] = part[2][1]
    return tokens[0][1], options


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    """Iterate over the tokens that Java's StreamTokenizer finds: words, with or without quotes, `=`, `;` and others."""
    at = 0
    while at < len(text):
        character = text[at]
        if character <= " ":
            at += 1
        elif character in "=;":
            yield character, character
            at += 1
        elif character in "\"'":
            word, at = _quoted(text, at)
            yield "word", word
        elif character == "/":
            at = _after_comment(text, at)
        else:
            match = re.compile(_WORD).match(text, at)
            yield ("word", match[0]) if match else ("other", character)
            at = match.end() if match else at + 1


def _quoted(text: str, at: int) -> tuple[str, int]:
    quote, at = text[at], at + 1
    found = []
    while at < len(text) and text[at] not in (quote, "\n", "\r"):
        character = text[at]
        at += 1
        if character == "\\" and at < len(text):
            octal = re.compile("[0-3]?[0-7]{1,2}").match(text, at)
            if octal:
                character, at = chr(int(octal[0], 8)), octal.end()
            else:
                character, at = _ESCAPES.get(text[at], text[at]), at + 1
        found.append(character)
    if at >= len(text) or text[at] != quote:
        raise ConfigError("sasl.jaas.config has a quote that is not closed on its line")
    return "".join(found), at + 1


def _after_comment(text: str, at: int) -> int:
    """Return the position after a comment: after `*/`, or in the next line (also after a single slash)."""
    if text.startswith("/*", at):
        end = text.find("*/", at + 2)
        return len(text) if end < 0 else end + 2
    ends = [end for end in (text.find("\n", at), text.find("\r", at)) if end >= 0]
    return min(ends, default=len(text))


def _shown(word: str) -> str:
    """Return a name for an error, unless it may be a value whose quotes were forgotten."""
    return repr(word) if re.fullmatch(r"[A-Za-z_][\w.$]{0,99}", word) else "that is no name"
