"""A Kafka cluster in one process: its logic, which takes time, chance and requests as arguments, and what drives it.

It speaks the real protocol by kafwire's own codecs. It is for development, tests and small embedded use; it does not
replicate. See docs/broker.md.
"""
