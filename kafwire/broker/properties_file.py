"""Files of properties for Java."""

from collections.abc import Mapping

_BACKSLASH = 0x5C


def properties_file(properties: Mapping[str, str]) -> str:
    """Return the text of a file of these properties for Java: in ASCII, with all other characters escaped."""
    return "".join(f"{key}={_escaped(value)}\n" for key, value in properties.items())


def _escaped(value: str) -> str:
    units = value.encode("utf-16-be", "surrogatepass")
    numbers = [int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2)]
    text = "".join(chr(unit) if 0x20 < unit < 0x7F and unit != _BACKSLASH else f"\\u{unit:04x}" for unit in numbers)
    return text.replace("\\u0020", " ") if value == value.strip() else text
