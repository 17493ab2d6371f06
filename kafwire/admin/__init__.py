"""Administration of a cluster: the values that `kafwire.Admin` takes and returns, loaded when they are first used."""

from __future__ import annotations

from kafwire.lazy_names import lazy_names

TYPE_CHECKING = False

if TYPE_CHECKING:
    from kafwire.admin.hanging_transactions import HangingTransaction
    from kafwire.admin.topics import CreatedTopic, NewTopic
    from kafwire.admin.transactions import FencedProducer, ProducerState, TransactionDescription, TransactionListing

__all__ = [
    "CreatedTopic",
    "FencedProducer",
    "HangingTransaction",
    "NewTopic",
    "ProducerState",
    "TransactionDescription",
    "TransactionListing",
]

_TOPICS = ("CreatedTopic", "NewTopic")
_TRANSACTIONS = ("FencedProducer", "ProducerState", "TransactionDescription", "TransactionListing")

if not TYPE_CHECKING:
    __getattr__ = lazy_names(
        __name__,
        {
            **dict.fromkeys(_TOPICS, "kafwire.admin.topics"),
            **dict.fromkeys(_TRANSACTIONS, "kafwire.admin.transactions"),
            "HangingTransaction": "kafwire.admin.hanging_transactions",
        },
    )
