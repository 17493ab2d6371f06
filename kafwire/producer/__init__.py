"""Sending: batches, sequence numbers, transactions."""
