"""Lets Spark find `format("kafwire")` by itself: it looks for a `DefaultSource` in every module named `pyspark_*`.

An error here would take every other Python data source down with it, so there is none: without a recent pyspark there
is no `DefaultSource`, and a line in the log says why.
"""

try:
    from kafwire.spark import KafwireDataSource as DefaultSource
except Exception as error:  # noqa: BLE001 - see above
    import logging

    logging.getLogger("kafwire.spark").warning("the Spark data source kafwire is not available: %r", error)
else:
    __all__ = ["DefaultSource"]
