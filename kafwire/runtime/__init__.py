"""The engine and its basis: its thread and event loop, native sockets, frames."""
