"""Fuzzing of what reads a stranger's bytes."""
