"""A Kafka cluster in one process: its logic, which takes time, randomness and requests as arguments, and its drivers.

It speaks Kafka's protocol by kafwire's own codecs. It is for development, tests and small embedded use; it does not
replicate. See docs/internals/broker.md.
"""
