"""Fetching: sessions, cursors, what is prefetched."""
