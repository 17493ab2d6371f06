"""Producers under faults, for a long time: outcomes are compared with the log. See docs/internals/soak.md."""
