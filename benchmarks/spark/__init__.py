"""Spark's source and sink beside Spark's own connector and beside the floor: `python -m benchmarks.spark`."""
