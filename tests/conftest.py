"""Fixtures and settings of all tests."""

from hypothesis import settings

pytest_plugins = ["kafwire.testing.pytest_plugin"]

# Examples are drawn anew in every run; a failure prints the decorator that repeats it.
settings.register_profile("kafwire", deadline=None, print_blob=True)
settings.load_profile("kafwire")
