"""Producers under faults, for a long time: what they were told is held against the log. See docs/reliability.md."""
