"""The flights of 2013 through a stream of Spark, exactly once: `python -m demo`."""
