"""Consumer groups: their members, and the offsets they commit."""
