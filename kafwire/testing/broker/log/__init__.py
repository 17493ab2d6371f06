"""The log of a partition: batches checked and appended, read, kept, compacted, and followed by replicas."""
