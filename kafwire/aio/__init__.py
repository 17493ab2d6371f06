"""The async face: the same names as in `kafwire.sync`, awaited."""
