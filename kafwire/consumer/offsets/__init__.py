"""A consumer's offsets: how far each partition is processed, what is in hand, what the group has committed."""
