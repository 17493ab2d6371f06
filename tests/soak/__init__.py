"""Producers under faults, for a long time: the log judges their outcomes. See docs/operate/reliability.md."""
