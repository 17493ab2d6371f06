"""Brokers: connections, metadata, coordinators, and requests with retries."""
