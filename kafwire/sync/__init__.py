"""The blocking face: it hands commands to the engine and waits. No decisions are made here."""
