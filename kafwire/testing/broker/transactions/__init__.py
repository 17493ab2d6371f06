"""Transactions: their coordinator, and their states."""
