"""The version of kafwire."""

__version__ = "0.1.0"
