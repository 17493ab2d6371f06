"""The flights of 2013 through Kafka and Spark and back: `python -m demo`."""
