"""The blocking face of administration, a module for each family of calls."""
