"""The async API: the same names as in `kafwire.sync`, awaited. It makes no decisions."""
