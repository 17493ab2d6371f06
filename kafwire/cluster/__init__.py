"""Brokers: connections, metadata, coordinators, and requests that are retried."""
