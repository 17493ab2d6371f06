"""`python -m kafwire.testing.simulation`: many runs, each decided by its seed."""

import sys

from kafwire.testing.simulation.campaign import main

if __name__ == "__main__":
    sys.exit(main())
