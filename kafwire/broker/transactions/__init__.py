"""Transactions: the coordinator and the states of transactional ids."""
