"""Copies of topics in files of a data lake."""
