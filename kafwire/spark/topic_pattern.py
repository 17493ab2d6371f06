"""The regular expression of `subscribePattern`: Python's syntax, with errors for Java's syntax that differs.

Pure. A query may come from Spark's own source with a Java expression: where the syntaxes differ, the error says
what to write, so that no expression silently matches other topics.
"""

from __future__ import annotations

import re
import warnings

from kafwire.errors import ConfigError

_UNION = "write Java's union of classes, [[...][...]], as one class; the character [ in a class is \\["
_CHARACTER = r"write the character of Java's \x{...}, \0n, \e or \cx itself"
# Signs of Java's regular expressions that Python's do not have, and what to write instead.
_JAVA = {
    r"\\p\{|\\p[A-Z]": r"write Java's \p{...} as a class, such as [A-Za-z] for \p{Alpha}",
    r"\\P\{|\\P[A-Z]": r"write Java's \P{...} as a class, such as [^A-Za-z] for \P{Alpha}",
    r"\\[QE]": r"write Java's \Q...\E with a backslash before each special character",
    r"\(\?<[A-Za-z]": "write Java's (?<name>...) as (?P<name>...)",
    r"\\k<": r"write Java's \k<name> as (?P=name)",
    r"&&": "write Java's intersection of classes, &&, as one class",
    r"\\z": r"write Java's \z as \Z",
    r"\\[hHVRX]": r"write Java's \h, \H, \V, \R and \X as classes; names of topics have no spaces",
    r"\\G": r"leave Java's \G out: each name is searched once",
    r"\\x\{|\\[ec]": _CHARACTER,
    r"\(\?[a-zA-Z]*[dU]": "leave Java's flags d and U out: names of topics are ASCII",
    r"\(\?[a-z]+\)": "write Java's flags in the middle of an expression as a group, (?i:...)",
    r"\(\?<[=!]": "write Java's look-behind with one fixed width, or as several expressions with | between",
    r"\[\[": _UNION,
}


def topic_pattern(text: str) -> str:
    """Return the expression after a check; raises `ConfigError`."""
    pattern = text.strip()
    if not pattern:
        raise ConfigError("option subscribePattern is empty: give a regular expression")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)  # && and [ in a class, which Java reads as set operations
            re.compile(pattern)
    except (re.error, FutureWarning) as error:
        advice = next((advice for sign, advice in _JAVA.items() if re.search(sign, pattern)), "correct it")
        raise _wrong(text, f"is not a regular expression of Python: {error}", advice) from None
    # Python takes these for something else, without an error.
    if _has_nested_class(pattern):
        raise _wrong(text, "is another expression in Java: a class has [ inside", _UNION)
    if re.search(r"(?<!\\)(?:\\\\)*\\0", pattern):
        raise _wrong(text, r"is another expression in Java, where \0 begins an octal number", _CHARACTER)
    return pattern


def _has_nested_class(pattern: str) -> bool:
    """True if an unescaped [ stands inside of a class, as in [a-c[x-z]]."""
    opened = -1  # the position where the class begins, after a ^
    at = 0
    while at < len(pattern):
        character = pattern[at]
        if character == "\\":
            at += 1
        elif opened < 0 and character == "[":
            at += pattern.startswith("^", at + 1)
            opened = at
        elif opened >= 0 and character == "[":
            return True
        elif character == "]" and at > opened + 1:  # a ] that comes first belongs to the class
            opened = -1
        at += 1
    return False


def _wrong(text: str, why: str, advice: str) -> ConfigError:
    return ConfigError(f"option subscribePattern={text!r} {why}; {advice}")
