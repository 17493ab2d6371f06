"""The async API flavour: the same names as in `kafwire.sync`, awaited. It makes no decisions."""
