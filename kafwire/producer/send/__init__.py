"""Sending of batches: leaders, requests, time limits, and the direct path."""
