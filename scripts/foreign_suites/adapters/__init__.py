"""Pytest plugins that stand between a suite's fixtures and the embedded broker. They run in the suite's interpreter."""
