"""One file for each API that the broker serves: `handle(state, request)` returns the response, or LATER.

The list of served APIs is this folder. See `kafwire.broker.dispatch`.
"""
