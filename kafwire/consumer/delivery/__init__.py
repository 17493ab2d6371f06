"""Delivery of fetched records: readers, Arrow streams, and claims of partitions."""
