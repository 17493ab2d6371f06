"""Fixtures and settings of all tests."""

import signal

from hypothesis import settings

pytest_plugins = ["kafwire.testing.pytest_plugin"]

# Examples are drawn anew in every run; a failure prints the decorator that repeats it.
settings.register_profile("kafwire", deadline=None, print_blob=True)
settings.load_profile("kafwire")

# A shell that starts a job in the background has it ignore Ctrl-C, and what that starts; here are tests of Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
