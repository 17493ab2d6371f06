"""Deliberate breaks of the program, drawn by chance, for the unit tests to detect: docs/internals/testing.md.

A break is found by what it means (a boundary moved, a guard dropped) in the syntax of the source, never by a line or a
file's name, so that draws and judgements outlive moves and renames as far as they can.
"""
