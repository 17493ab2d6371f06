"""Hints for options of kcat that are commands or other options here: the end of an error for an unknown option."""

MODES = {"-C": "consume", "-P": "produce", "-L": "topics -L", "-Q": "offsets", "-G": "consume --group GROUP"}
_MODES_ARE_COMMANDS = (
    "kcat's modes are commands: 'kafwire consume', 'kafwire produce', 'kafwire topics -L' and 'kafwire offsets', with "
    "their options behind them"
)
# Options of kcat beside its modes.
_OTHERS = frozenset(f"-{letter}" for letter in "btpXFeocfKDJZOuqvdmETlkHzsr")
OPTIONS = {
    "-m": "it is '--timeout' here",
    "-q": "leave it out: records and errors are all that is printed",
    "-T": "pipe the input through tee",
    "-s": "values are printed as bytes; kafwire.avro decodes Avro",
    "-r": "values are printed as bytes; kafwire.avro decodes Avro",
}


def hint(option: str, command: str) -> str | None:
    """Return what to write for an option of kcat; None for other options.

    Args:
        option: the option that a command does not have.
        command: the words of the command, `kafwire consume` for example.
    """
    if command == "kafwire":
        return _MODES_ARE_COMMANDS if option in MODES or option in _OTHERS else None
    name = command.removeprefix("kafwire ")
    if option in MODES:
        mode = MODES[option]
        return f"leave it out: '{command}' says it" if mode == name else f"it is 'kafwire {mode}'"
    return OPTIONS.get(option) if name in ("consume", "produce", "topics", "offsets") else None
