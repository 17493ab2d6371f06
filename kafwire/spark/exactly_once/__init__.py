"""The exactly-once sink of Spark: prepared transactions, a fenced decision record, roll-forward. docs/spark.md."""
