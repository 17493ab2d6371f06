"""The fetch engine: cursors, sessions, brokers, and the queue that readers empty."""
