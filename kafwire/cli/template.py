"""The output format of `kafwire consume`: kcat's format strings, delimiters and JSON, as the parts of a Renderer.

Pure: text in, parts out.
"""

import re

import click

__all__ = ["BYTES_FORMS", "Part", "json_parts", "parse_format", "plain_parts", "unescape"]

Part = bytes | tuple[str, str]

BYTES_FORMS = ("auto", "raw", "text", "hex", "base64")
_RAW = {form: form for form in BYTES_FORMS} | {"auto": "raw"}
_JSON = {"auto": "json", "hex": "json_hex", "base64": "json_base64"}

# The form is added to %s, %k and %h.
_TOKENS: dict[str, tuple[str, str | None]] = {
    "s": ("value", None),
    "k": ("key", None),
    "h": ("headers", None),
    "S": ("value", "size"),
    "R": ("value", "size_binary"),
    "K": ("key", "size"),
    "T": ("timestamp", "raw"),
    "t": ("topic", "raw"),
    "p": ("partition", "raw"),
    "o": ("offset", "raw"),
}
_ESCAPE = re.compile(rb"\\(x[0-9a-fA-F]{1,2}|0[0-7]{0,3}|[1-9][0-9]{0,2}|.)", re.DOTALL)
_LETTERS = {b"n": b"\n", b"r": b"\r", b"t": b"\t"}


def unescape(text: str) -> bytes:
    r"""Return the bytes of a delimiter or of a format's text.

    \n, \r, \t; \xHH with one or two hex digits; \NNN with up to three digits, in octal after a 0, else in decimal; any
    other character after a backslash stands for itself.
    """

    def byte(match: re.Match[bytes]) -> bytes:
        code = match[1]
        if code[:1] == b"x" and len(code) > 1:
            return bytes([int(code[1:], 16)])
        if code == b"x":
            raise click.UsageError(f"\\x in {text!r} needs one or two hex digits: \\x00")
        if not code.isdigit():
            return _LETTERS.get(code, code)
        try:
            return bytes([int(code, 8 if code[:1] == b"0" else 10)])
        except ValueError:
            raise click.UsageError(
                f"\\{code.decode()} in {text!r} is not a byte: \\0 to \\0377, or \\1 to \\255"
            ) from None

    return _ESCAPE.sub(byte, text.encode(errors="surrogateescape"))


def parse_format(text: str, form: str) -> list[Part]:
    """Return the parts of a format string with kcat's tokens; `form` is one of `BYTES_FORMS`, for %s, %k and %h."""
    parts: list[Part] = []
    literal, *others = re.split("%(.?)", text, flags=re.DOTALL)
    for letter, following in zip(others[::2], others[1::2], strict=True):
        if letter == "%":
            literal += "%" + following
            continue
        if letter not in _TOKENS:
            known = " ".join(f"%{name}" for name in _TOKENS)
            what = f"there is no %{letter}" if letter else "nothing follows the last %"
            raise click.UsageError(f"format {text!r}: {what}; known: {known} %%")
        if literal:
            parts.append(unescape(literal))
        field, fixed = _TOKENS[letter]
        parts.append((field, fixed or _RAW[form]))
        literal = following
    if literal:
        parts.append(unescape(literal))
    return parts


def plain_parts(delimiter: str, key_delimiter: str | None, form: str, *, with_offset: bool = False) -> list[Part]:
    """Return the parts printed without a format: [offset,] [key,] value and a delimiter."""
    parts: list[Part] = []
    between = "\\t" if key_delimiter is None else key_delimiter
    if with_offset:
        parts += [("offset", "raw"), unescape(between)]
    if key_delimiter is not None:
        parts += [("key", _RAW[form]), unescape(key_delimiter)]
    return [*parts, ("value", _RAW[form]), unescape(delimiter)]


def json_parts(delimiter: str, form: str) -> list[Part]:
    """Return the parts of kcat's JSON envelope, one object per record.

    Raises `click.UsageError` for a form of lines.
    """
    if form not in _JSON:
        raise click.UsageError(f"--bytes {form} needs output as lines; with -J, --bytes is one of {', '.join(_JSON)}")
    return [
        b'{"topic":',
        ("topic", "json"),
        b',"partition":',
        ("partition", "raw"),
        b',"offset":',
        ("offset", "raw"),
        b",",
        ("timestamp", "json"),
        ("headers", _JSON[form]),
        b'"key":',
        ("key", _JSON[form]),
        b',"payload":',
        ("value", _JSON[form]),
        b"}" + unescape(delimiter),
    ]
