"""Options of brokers that Kafka 4.4.0 lists and this broker only keeps and describes: they have no effect.

The table is the DescribeConfigs response of a broker of Kafka 4.4.0: name, type, whether the option may be altered
while the broker runs, and the default if there is one. All defaults are Kafka's, such as that of `log.dir`: this broker
opens no folder for it.
"""

from __future__ import annotations

from kafwire.broker.topics.config_def import by_name, from_table

_DOC = "kept and described; this broker does not heed it"
_TABLE = """
add.partitions.to.txn.retry.backoff.max.ms int fixed 100
add.partitions.to.txn.retry.backoff.ms int fixed 20
advertised.listeners list fixed
alter.config.policy.class.name class fixed
alter.log.dirs.replication.quota.window.num int fixed 11
alter.log.dirs.replication.quota.window.size.seconds int fixed 1
auto.leader.rebalance.enable boolean fixed true
background.threads int dynamic 10
broker.heartbeat.interval.ms int fixed 2000
broker.id int fixed -1
broker.rack string fixed
broker.session.timeout.ms int fixed 9000
client.quota.callback.class class fixed
config.providers list dynamic ""
controlled.shutdown.enable boolean fixed true
controller.listener.names list fixed
controller.quorum.append.linger.ms int fixed 25
controller.quorum.auto.join.enable boolean fixed false
controller.quorum.bootstrap.servers list fixed ""
controller.quorum.election.backoff.max.ms int fixed 1000
controller.quorum.election.timeout.ms int fixed 1000
controller.quorum.fetch.max.bytes int fixed 1048576
controller.quorum.fetch.snapshot.max.bytes int fixed 1048576
controller.quorum.fetch.timeout.ms int fixed 2000
controller.quorum.request.timeout.ms int fixed 2000
controller.quorum.retry.backoff.ms int fixed 20
controller.quorum.voters list fixed ""
controller.quota.window.num int fixed 11
controller.quota.window.size.seconds int fixed 1
controller.socket.timeout.ms int fixed 30000
cordoned.log.dirs list dynamic ""
create.topic.policy.class.name class fixed
delete.records.purgatory.purge.interval.requests int fixed 1
early.start.listeners list fixed
errors.deadletterqueue.auto.create.topics.enable boolean dynamic false
errors.deadletterqueue.topic.name.prefix string dynamic dlq.
fetch.purgatory.purge.interval.requests int fixed 1000
follower.fetch.last.tiered.offset.enable boolean dynamic false
group.coordinator.append.linger.ms int fixed -1
group.coordinator.background.threads int fixed 2
group.coordinator.cached.buffer.max.bytes int dynamic 1048588
group.coordinator.rebalance.protocols list fixed classic,consumer,streams
group.coordinator.threads int fixed 4
group.share.assignors list fixed simple
group.streams.topology.description.plugin.class class fixed
initial.broker.registration.timeout.ms int fixed 60000
inter.broker.listener.name string fixed
kafka.metrics.polling.interval.secs int fixed 10
kafka.metrics.reporters list fixed ""
leader.imbalance.check.interval.seconds long fixed 300
listener.security.protocol.map string dynamic SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT
listeners list dynamic PLAINTEXT://:9092
log.cleaner.dedupe.buffer.size long dynamic 134217728
log.cleaner.io.buffer.load.factor double dynamic 0.9
log.cleaner.io.buffer.size int dynamic 524288
log.cleaner.io.max.bytes.per.second double dynamic 1.7976931348623157E308
log.cleaner.threads int dynamic 1
log.dir list fixed /tmp/kafka-logs
log.dir.failure.timeout.ms long fixed 30000
log.flush.offset.checkpoint.interval.ms int fixed 60000
log.flush.scheduler.interval.ms long fixed 9223372036854775807
log.flush.start.offset.checkpoint.interval.ms int fixed 60000
max.connection.creation.rate int dynamic 2147483647
max.connections int dynamic 2147483647
max.connections.per.ip int dynamic 2147483647
max.connections.per.ip.overrides string dynamic ""
max.request.partition.size.limit int fixed 2000
metadata.log.dir string fixed
metadata.log.max.record.bytes.between.snapshots long fixed 20971520
metadata.log.max.snapshot.interval.ms long fixed 3600000
metadata.log.segment.bytes int fixed 1073741824
metadata.log.segment.ms long fixed 604800000
metadata.max.idle.interval.ms int fixed 500
metadata.max.retention.bytes long fixed 104857600
metadata.max.retention.ms long fixed 604800000
metric.reporters list dynamic org.apache.kafka.common.metrics.JmxReporter
metrics.num.samples int fixed 2
metrics.recording.level string fixed INFO
metrics.sample.window.ms long fixed 30000
node.id int fixed
num.io.threads int dynamic 8
num.network.threads int dynamic 3
num.recovery.threads.per.data.dir int dynamic 2
num.replica.alter.log.dirs.threads int fixed
num.replica.fetchers int dynamic 1
offsets.commit.timeout.ms int fixed 5000
offsets.load.buffer.size int fixed 5242880
offsets.topic.compression.codec int fixed 0
offsets.topic.replication.factor short fixed 3
offsets.topic.segment.bytes int fixed 104857600
principal.builder.class class dynamic org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder
process.roles list fixed
producer.purgatory.purge.interval.requests int fixed 1000
queued.max.request.bytes long fixed -1
queued.max.requests int fixed 500
quota.window.num int fixed 11
quota.window.size.seconds int fixed 1
remote.fetch.max.wait.ms int dynamic 500
remote.list.offsets.request.timeout.ms long dynamic 30000
remote.log.index.file.cache.total.size.bytes long dynamic 1073741824
remote.log.manager.copier.thread.pool.size int dynamic 10
remote.log.manager.copy.max.bytes.per.second long dynamic 9223372036854775807
remote.log.manager.copy.quota.window.num int fixed 11
remote.log.manager.copy.quota.window.size.seconds int fixed 1
remote.log.manager.expiration.thread.pool.size int dynamic 10
remote.log.manager.fetch.max.bytes.per.second long dynamic 9223372036854775807
remote.log.manager.fetch.quota.window.num int fixed 11
remote.log.manager.fetch.quota.window.size.seconds int fixed 1
remote.log.manager.follower.thread.pool.size int dynamic 2
remote.log.manager.task.interval.ms long fixed 30000
remote.log.manager.thread.pool.size int fixed 2
remote.log.metadata.custom.metadata.max.bytes int fixed 128
remote.log.metadata.manager.class.name string fixed org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager
remote.log.metadata.manager.class.path string fixed
remote.log.metadata.manager.impl.prefix string fixed rlmm.config.
remote.log.metadata.manager.listener.name string fixed
remote.log.reader.max.pending.tasks int fixed 100
remote.log.reader.threads int dynamic 10
remote.log.storage.manager.class.name string fixed
remote.log.storage.manager.class.path string fixed
remote.log.storage.manager.impl.prefix string fixed rsm.config.
remote.log.storage.system.enable boolean fixed false
replica.fetch.backoff.ms int fixed 1000
replica.fetch.max.bytes int fixed 1048576
replica.fetch.min.bytes int fixed 1
replica.fetch.response.max.bytes int fixed 10485760
replica.fetch.wait.max.ms int fixed 500
replica.high.watermark.checkpoint.interval.ms long fixed 5000
replica.selector.class string fixed
replica.socket.receive.buffer.bytes int fixed 65536
replica.socket.timeout.ms int fixed 30000
replication.quota.window.num int fixed 11
replication.quota.window.size.seconds int fixed 1
request.timeout.ms int fixed 30000
sasl.client.callback.handler.class class fixed
sasl.enabled.mechanisms list dynamic GSSAPI
sasl.jaas.config password dynamic
sasl.kerberos.kinit.cmd string dynamic /usr/bin/kinit
sasl.kerberos.min.time.before.relogin long dynamic 60000
sasl.kerberos.principal.to.local.rules list dynamic DEFAULT
sasl.kerberos.service.name string dynamic
sasl.kerberos.ticket.renew.jitter double dynamic 0.05
sasl.kerberos.ticket.renew.window.factor double dynamic 0.8
sasl.login.callback.handler.class class fixed
sasl.login.class class fixed
sasl.login.connect.timeout.ms int fixed
sasl.login.read.timeout.ms int fixed
sasl.login.refresh.buffer.seconds short dynamic 300
sasl.login.refresh.min.period.seconds short dynamic 60
sasl.login.refresh.window.factor double dynamic 0.8
sasl.login.refresh.window.jitter double dynamic 0.05
sasl.login.retry.backoff.max.ms long fixed 10000
sasl.login.retry.backoff.ms long fixed 100
sasl.mechanism.controller.protocol string fixed GSSAPI
sasl.mechanism.inter.broker.protocol string dynamic GSSAPI
sasl.oauthbearer.allow.unverified.audience boolean fixed false
sasl.oauthbearer.allow.unverified.issuer boolean fixed false
sasl.oauthbearer.assertion.algorithm string fixed RS256
sasl.oauthbearer.assertion.claim.aud string fixed
sasl.oauthbearer.assertion.claim.exp.seconds int fixed 300
sasl.oauthbearer.assertion.claim.iss string fixed
sasl.oauthbearer.assertion.claim.jti.include boolean fixed false
sasl.oauthbearer.assertion.claim.nbf.seconds int fixed 60
sasl.oauthbearer.assertion.claim.sub string fixed
sasl.oauthbearer.assertion.file string fixed
sasl.oauthbearer.assertion.private.key.file string fixed
sasl.oauthbearer.assertion.private.key.passphrase password fixed
sasl.oauthbearer.assertion.template.file string fixed
sasl.oauthbearer.client.credentials.client.id string fixed
sasl.oauthbearer.client.credentials.client.secret password fixed
sasl.oauthbearer.clock.skew.seconds int fixed 30
sasl.oauthbearer.expected.audience list fixed ""
sasl.oauthbearer.expected.issuer string fixed
sasl.oauthbearer.jwks.endpoint.refresh.ms long fixed 3600000
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms long fixed 10000
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms long fixed 100
sasl.oauthbearer.jwks.endpoint.url string fixed
sasl.oauthbearer.jwt.retriever.class class fixed org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever
sasl.oauthbearer.jwt.validator.class class fixed org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator
sasl.oauthbearer.scope string fixed
sasl.oauthbearer.scope.claim.name string fixed scope
sasl.oauthbearer.sub.claim.name string fixed sub
sasl.oauthbearer.token.endpoint.url string fixed
sasl.server.callback.handler.class class fixed
sasl.server.max.receive.size int fixed 524288
security.inter.broker.protocol string fixed PLAINTEXT
security.providers string fixed
share.coordinator.append.linger.ms int fixed -1
share.coordinator.cached.buffer.max.bytes int dynamic 1048588
share.coordinator.load.buffer.size int fixed 5242880
share.coordinator.snapshot.update.records.per.snapshot int fixed 500
share.coordinator.state.topic.compression.codec int fixed 0
share.coordinator.state.topic.min.isr short fixed 2
share.coordinator.state.topic.num.partitions int fixed 50
share.coordinator.state.topic.replication.factor short fixed 3
share.coordinator.state.topic.segment.bytes int fixed 104857600
share.coordinator.threads int fixed 1
share.coordinator.write.timeout.ms int fixed 5000
share.fetch.purgatory.purge.interval.requests int fixed 1000
socket.connection.setup.timeout.max.ms long fixed 30000
socket.connection.setup.timeout.ms long fixed 10000
socket.listen.backlog.size int fixed 50
socket.receive.buffer.bytes int fixed 102400
socket.send.buffer.bytes int fixed 102400
ssl.allow.dn.changes boolean fixed false
ssl.allow.san.changes boolean fixed false
ssl.cipher.suites list dynamic ""
ssl.client.auth string dynamic none
ssl.enabled.protocols list dynamic TLSv1.2,TLSv1.3
ssl.endpoint.identification.algorithm string dynamic https
ssl.engine.factory.class class dynamic
ssl.key.password password dynamic
ssl.keymanager.algorithm string dynamic SunX509
ssl.keystore.certificate.chain password dynamic
ssl.keystore.key password dynamic
ssl.keystore.location string dynamic
ssl.keystore.password password dynamic
ssl.keystore.type string dynamic JKS
ssl.principal.mapping.rules string fixed DEFAULT
ssl.protocol string dynamic TLSv1.3
ssl.provider string dynamic
ssl.secure.random.implementation string dynamic
ssl.trustmanager.algorithm string dynamic PKIX
ssl.truststore.certificates password dynamic
ssl.truststore.location string dynamic
ssl.truststore.password password dynamic
ssl.truststore.type string dynamic JKS
telemetry.max.bytes int fixed 1048576
transaction.partition.verification.enable boolean dynamic true
transaction.state.log.load.buffer.size int fixed 5242880
transaction.state.log.min.isr int fixed 2
transaction.state.log.num.partitions int fixed 50
transaction.state.log.replication.factor short fixed 3
transaction.state.log.segment.bytes int fixed 104857600
transaction.two.phase.commit.enable boolean fixed false
"""  # noqa: E501 - a row of the table is a line

UNHEEDED_CONFIGS = by_name(*from_table(_TABLE, _DOC))
