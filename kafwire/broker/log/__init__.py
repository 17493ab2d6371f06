"""The log of a partition: batches checked and appended, read, deleted, compacted, and replicated."""
