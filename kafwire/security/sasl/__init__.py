"""SASL mechanisms as pure exchanges: a challenge in, a response out. No socket, clock or randomness."""
