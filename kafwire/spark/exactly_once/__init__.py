"""The exactly-once sink of Spark: prepared transactions, a fenced decision record, roll-forward.

docs/guide/spark.md describes it.
"""
