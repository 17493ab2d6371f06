"""Buffered records: the accumulator, its batches and queues, and the choice of partitions."""
