"""Checks of clients' requests as they are sent, by rules of the protocol that brokers do not, or cannot, enforce."""
