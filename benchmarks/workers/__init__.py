"""The processes of the Python contenders; each speaks the protocol of `benchmarks.workers.common`."""
