"""Pooled buffers: what every other package's bytes lie in."""
