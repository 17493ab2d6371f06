"""Parts of a broker as values of the journal, and back: offsets, share groups, transactions, users, options.

The parts save changes with `state.journal.write`. This module alone knows the forms of their values.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kafwire.broker.groups.group_coordinator import GroupCoordinator
from kafwire.broker.groups.offsets import OffsetStore
from kafwire.broker.groups.offsets_topic import Committed
from kafwire.broker.log.cleaner import JOURNAL as CLEAN_OFFSET
from kafwire.broker.log.cleaner import Cleaner
from kafwire.broker.quotas import Quotas
from kafwire.broker.security.acls import Acl
from kafwire.broker.security.credentials import Credentials, ScramCredential
from kafwire.broker.security.delegation_tokens import JOURNAL as TOKEN
from kafwire.broker.security.delegation_tokens import DelegationTokens, load_token
from kafwire.broker.share.share_states import JOURNAL, ShareStates
from kafwire.broker.storage.journal import Journal, Key
from kafwire.broker.topics.config_store import ConfigStore
from kafwire.broker.transactions.transactions import Transactions

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState

Entry = tuple[str, Key, Any]


def dump_parts(state: ClusterState) -> Iterator[Entry]:
    """Yield the entries of all parts."""
    offsets: OffsetStore = state.part(OffsetStore)
    transactions: Transactions = state.part(Transactions)
    yield from offsets.dump()
    yield from transactions.dump()
    shared: ShareStates = state.part(ShareStates)
    yield from shared.entries()
    cleaner: Cleaner = state.part(Cleaner)
    yield from cleaner.entries()
    credentials: Credentials = state.part(Credentials)
    for (mechanism, user), credential in credentials.scram.items():
        yield "scram", [mechanism, user], credential.dump()
    tokens: DelegationTokens = state.part(DelegationTokens)
    for token in tokens.tokens.values():
        yield TOKEN, token.token_id, token.dump()
    for acl in state.authorizer.all():
        yield "acl", acl.as_key(), True
    quotas: Quotas = state.part(Quotas)
    for names, values in quotas.values.items():
        yield "quota", sorted([kind, name] for kind, name in names), values
    configs: ConfigStore = state.part(ConfigStore)
    if configs.of_all:
        yield "config", "", configs.of_all
    for node, its in configs.of_one.items():
        if its:
            yield "config", str(node), its
    for group, its in state.group_configs.items():
        if its:
            yield "group config", group, its
    if state.features_epoch > 1:
        yield "features", "", [state.features, state.features_epoch]
    for name, its in configs.of_metrics.items():
        yield "client metrics", name, its


def load_parts(state: ClusterState, journal: Journal) -> None:
    """Restore all parts, before the first request."""
    configs: ConfigStore = state.part(ConfigStore)
    for name, value in journal.of("config"):
        configs.restore(name, value)
    state.group_configs.update(journal.of("group config"))
    for _, (levels, epoch) in journal.of("features"):
        state.features.update(levels)
        state.features_epoch = epoch
    configs.of_metrics.update(journal.of("client metrics"))
    offsets: OffsetStore = state.part(OffsetStore)
    for (group, topic, partition), value in journal.of("offset"):
        offsets.restore(group, (topic, partition), Committed(*value[:4]), value[4])
    for (group, producer_id, topic, partition), value in journal.of("pending"):
        offsets.restore_pending(group, producer_id, value[5], (topic, partition), Committed(*value[:4]), value[4])
    shared: ShareStates = state.part(ShareStates)
    groups: GroupCoordinator = state.part(GroupCoordinator)
    for (group, topic_id, partition), value in journal.of(JOURNAL):
        shared.restore(group, uuid.UUID(topic_id), partition, value)
        groups.add_share(groups.to_share(group, creates=True))
    transactions: Transactions = state.part(Transactions)
    for _, value in journal.of("producer-ids"):
        transactions.restore_ids(value)
    for transactional_id, value in journal.of("transaction"):
        transactions.restore(transactional_id, value)
    cleaner: Cleaner = state.part(Cleaner)
    for (topic, partition), value in journal.of(CLEAN_OFFSET):
        cleaner.restore(topic, partition, value)
    credentials: Credentials = state.part(Credentials)
    for (mechanism, user), value in journal.of("scram"):
        credentials.scram[mechanism, user] = load_scram(value)
    tokens: DelegationTokens = state.part(DelegationTokens)
    for token_id, value in journal.of(TOKEN):
        tokens.restore(load_token(token_id, value))
    state.authorizer.add(load_acl(key) for key, _ in journal.of("acl"))
    quotas: Quotas = state.part(Quotas)
    for names, value in journal.of("quota"):
        quotas.set(dict(names), value)


def load_scram(value: list[Any]) -> ScramCredential:
    """Return the credential of a value. See `ScramCredential.dump`."""
    salt, stored_key, server_key = (base64.b64decode(each) for each in value[:3])
    return ScramCredential(salt, stored_key, server_key, value[3])


def load_acl(key: list[Any]) -> Acl:
    """Return the ACL of a key. See `Acl.as_key`."""
    principal, name, host, operation, resource_type, pattern, permission = key
    return Acl(principal, operation, resource_type, name, pattern=pattern, permission=permission, host=host)
