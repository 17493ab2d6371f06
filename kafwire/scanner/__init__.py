"""Scans: bounded reads of topics."""
