"""Authentication of connections, and their permissions."""
