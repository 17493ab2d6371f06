"""Decisions, and nothing else: state, event and time in, actions out. No sockets, clocks, threads or chance here."""
