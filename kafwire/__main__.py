"""`python -m kafwire`: the command line."""

from kafwire.cli import main

main(prog_name="kafwire")
