"""A message's versions by numbers: the valid ones first, then those that Kafka 4 removed.

So numbers of valid versions keep their meaning when a message gets removed ones.
"""

from kafwire.protocol import Message


def version_of(message: type[Message], number: int) -> int:
    """Return the version with a number; any number has one."""
    first = message.min_version - message.oldest_version
    return message.oldest_version + (first + number) % (message.max_version - message.oldest_version + 1)


def number_of(message: type[Message], version: int) -> int:
    """Return the number of a version, the inverse of `version_of`."""
    return (version - message.min_version) % (message.max_version - message.oldest_version + 1)
