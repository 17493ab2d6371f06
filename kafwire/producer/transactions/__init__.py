"""Transactions of a producer: their state, and their requests to coordinators."""
