"""Outcomes of batches: responses, retries, sequence numbers, and batches in doubt."""
