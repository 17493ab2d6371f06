"""The blocking API flavour: it hands commands to the engine and waits. It makes no decisions."""
