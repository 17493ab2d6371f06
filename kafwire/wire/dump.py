"""The old name of `kafwire.protocol.dump`."""

from kafwire.protocol.dump import *  # noqa: F403
