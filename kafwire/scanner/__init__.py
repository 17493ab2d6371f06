"""Bounded reads."""
