"""The transactions that a sink left open; tests share a cluster."""

from __future__ import annotations

import kafwire
from kafwire.spark.exactly_once.decisions import prefix_of


def open_transactions(bootstrap: str, sink: str) -> list[str]:
    """The ids of open transactions of the sinks whose name begins so."""
    with kafwire.Admin(bootstrap) as admin:
        listed = admin.list_transactions(states=["Ongoing"], prefix=prefix_of(sink).removesuffix(":"))
    return [each.transactional_id for each in listed]
