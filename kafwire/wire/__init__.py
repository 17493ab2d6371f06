"""An old place of `kafwire.protocol.dump`, kept for programs that import it from here."""
