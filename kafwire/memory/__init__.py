"""Pooled buffers, which hold the bytes of all other packages."""
