"""The old name of `kafwire.types`."""

from kafwire.types import *  # noqa: F403
