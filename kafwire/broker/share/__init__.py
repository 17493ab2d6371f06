"""Share partitions (KIP-932): the locks of records, their delivery counts, and the persistent state."""
