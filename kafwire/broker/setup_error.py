"""`SetupError`: the error of a machine that lacks a part which a broker needs."""


class SetupError(RuntimeError):
    """This machine lacks a part that a broker needs. The message names it, and a way to install it."""
