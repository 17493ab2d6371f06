"""Share partitions (KIP-932): which record is locked by whom, how often it was delivered, and what is kept of that."""
