"""A module without Python names: `_interrupts.pxd` is the contract."""
