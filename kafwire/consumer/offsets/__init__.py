"""A consumer's offsets: how far each partition is processed, in hand, and committed."""
