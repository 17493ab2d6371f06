"""A consumer's offsets: processed, in hand, and committed."""
