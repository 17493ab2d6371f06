"""What the engine runs on: its thread and event loop, native sockets, frames."""
