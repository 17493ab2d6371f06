"""Producers under faults, for a long time: their outcomes are compared with the log. See docs/operate/reliability.md."""
