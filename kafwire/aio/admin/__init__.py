"""The asyncio face of administration, a module for each family of calls."""
