import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AccessControlEntryFilter;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.UnknownServerException;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.quota.ClientQuotaFilterComponent;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourcePatternFilter;
import org.apache.kafka.common.resource.ResourceType;

/**
 * Java's Admin behind a pipe: a call per line of standard input, as JSON, and its outcome per line of standard output.
 *
 * <pre>
 * {"number": 1, "bootstrap": "...", "method": "describeTransactions", "arguments": {"ids": ["a", "b"]}}
 *     -> {"number": 1, "results": {"a": {...}}, "errors": {"b": "TRANSACTIONAL_ID_NOT_FOUND"}}
 * </pre>
 *
 * It is compiled against the newest Kafka, and runs with the classes of older ones: a case that needs newer classes fails there.
 *
 * A method is a case of its family, which returns a future for each key; the case says what the arguments are. Results are shown whole: an object has a field for
 * each of its public methods without arguments, an empty Optional is null, an element of Kafka's enums is its text.
 */
@SuppressWarnings({"deprecation", "removal"}) // methods that older releases have too
public final class JavaAdmin {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int PATIENCE_MS = 30_000;
    private static final Set<String> NOT_SHOWN = Set.of("hashCode", "toString", "getClass", "notify", "notifyAll");
    private static final Map<String, Admin> OPEN = new HashMap<>();

    private JavaAdmin() {}

    public static void main(String[] arguments) throws Exception {
        PrintStream outcomes = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        BufferedReader calls = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = calls.readLine(); line != null; line = calls.readLine()) {
            JsonNode asked = JSON.readTree(line);
            ObjectNode outcome;
            try {
                outcome = outcome(asked);
            } catch (Exception | LinkageError error) {
                outcome = JSON.createObjectNode().put("failed", error.toString());
            }
            outcome.set("number", asked.get("number"));
            outcomes.println(JSON.writeValueAsString(outcome));
        }
        OPEN.values().forEach(Admin::close);
    }

    private static ObjectNode outcome(JsonNode asked) throws Exception {
        ObjectNode outcome = JSON.createObjectNode();
        ObjectNode results = outcome.putObject("results");
        ObjectNode errors = outcome.putObject("errors");
        String method = asked.get("method").asText();
        if (method.equals("methods")) {
            results.set("names", shown(names()));
            return outcome;
        }
        Admin admin = OPEN.computeIfAbsent(asked.get("bootstrap").asText(), JavaAdmin::connected);
        for (Map.Entry<String, KafkaFuture<?>> each : call(admin, method, asked.get("arguments")).entrySet()) {
            try {
                results.set(each.getKey(), shown(each.getValue().get(2 * PATIENCE_MS, TimeUnit.MILLISECONDS)));
            } catch (ExecutionException error) {
                errors.put(each.getKey(), nameOf(error.getCause()));
            }
        }
        return outcome;
    }

    private static Admin connected(String bootstrap) {
        return Admin.create(Map.of("bootstrap.servers", bootstrap, "default.api.timeout.ms", PATIENCE_MS));
    }

    // -- one case for each method, by family

    private static Map<String, KafkaFuture<?>> call(Admin admin, String method, JsonNode in) {
        List<Family> families = List.of(
            JavaAdmin::topics, JavaAdmin::configs, JavaAdmin::cluster, JavaAdmin::replicas, JavaAdmin::groups,
            JavaAdmin::groupOffsets, JavaAdmin::security, JavaAdmin::transactions);
        for (Family family : families) {
            Map<String, KafkaFuture<?>> found = family.call(admin, method, in);
            if (found != null)
                return found;
        }
        throw new IllegalArgumentException("JavaAdmin.java has no case for " + method);
    }

    private interface Family {
        /** Call a method; null if it is of another family. */
        Map<String, KafkaFuture<?>> call(Admin admin, String method, JsonNode in);
    }

    private static Map<String, KafkaFuture<?>> topics(Admin admin, String method, JsonNode in) {
        switch (method) {
            case "createTopics": {
                List<NewTopic> topics = each(in.get("topics"), JavaAdmin::newTopic);
                CreateTopicsResult made = admin.createTopics(topics, new CreateTopicsOptions().validateOnly(has(in, "validateOnly")));
                return byKey(made.values().keySet(), name -> together(Map.of(
                    "numPartitions", made.numPartitions(name),
                    "replicationFactor", made.replicationFactor(name),
                    "config", made.config(name))));
            }
            case "deleteTopics":
                return byKey(admin.deleteTopics(texts(in.get("topics"))).topicNameValues());
            case "createPartitions": {
                Map<String, NewPartitions> counts = new HashMap<>();
                in.get("counts").properties().forEach(entry -> counts.put(entry.getKey(), NewPartitions.increaseTo(entry.getValue().asInt())));
                return byKey(admin.createPartitions(counts, new CreatePartitionsOptions().validateOnly(has(in, "validateOnly"))).values());
            }
            case "listTopics":
                return only("all", admin.listTopics(new ListTopicsOptions().listInternal(has(in, "internal"))).namesToListings());
            case "describeTopics":
                return byKey(admin.describeTopics(texts(in.get("topics"))).topicNameValues());
            case "deleteRecords": {
                Map<TopicPartition, RecordsToDelete> before = new HashMap<>();
                for (JsonNode each : in.get("offsets"))
                    before.put(partition(each), RecordsToDelete.beforeOffset(each.get(2).asLong()));
                return byKey(admin.deleteRecords(before).lowWatermarks());
            }
            case "listOffsets": {
                Map<TopicPartition, OffsetSpec> specs = new HashMap<>();
                for (JsonNode each : in.get("specs"))
                    specs.put(partition(each), offsetSpec(each.get(2)));
                return byKey(specs.keySet(), admin.listOffsets(specs)::partitionResult);
            }
            default:
                return null;
        }
    }

    private static Map<String, KafkaFuture<?>> configs(Admin admin, String method, JsonNode in) {
        switch (method) {
            case "describeConfigs": {
                List<ConfigResource> asked = each(in.get("resources"), JavaAdmin::resource);
                DescribeConfigsOptions options = new DescribeConfigsOptions().includeSynonyms(has(in, "synonyms"));
                Map<ConfigResource, KafkaFuture<Config>> found = admin.describeConfigs(asked, options).values();
                return byKey(asked, JavaAdmin::nameOf, found::get);
            }
            case "incrementalAlterConfigs": {
                Map<ConfigResource, Collection<AlterConfigOp>> changes = new HashMap<>();
                for (JsonNode each : in.get("changes"))
                    changes.computeIfAbsent(resource(each), resource -> new ArrayList<>()).add(new AlterConfigOp(
                        new ConfigEntry(each.get(2).asText(), text(each.get(4))), AlterConfigOp.OpType.valueOf(each.get(3).asText())));
                AlterConfigsOptions options = new AlterConfigsOptions().validateOnly(has(in, "validateOnly"));
                Map<ConfigResource, KafkaFuture<Void>> done = admin.incrementalAlterConfigs(changes, options).values();
                return byKey(done.keySet(), JavaAdmin::nameOf, done::get);
            }
            case "listClientMetricsResources":
                return only("all", admin.listClientMetricsResources(new ListClientMetricsResourcesOptions()).all());
            case "listConfigResources": {
                Set<ConfigResource.Type> types = new HashSet<>(each(in.get("types"), each -> ConfigResource.Type.valueOf(each.asText())));
                return only("all", admin.listConfigResources(types, new ListConfigResourcesOptions()).all());
            }
            default:
                return null;
        }
    }

    private static Map<String, KafkaFuture<?>> cluster(Admin admin, String method, JsonNode in) {
        switch (method) {
            case "describeCluster": {
                DescribeClusterOptions options = new DescribeClusterOptions().includeAuthorizedOperations(has(in, "operations"));
                if (has(in, "fenced"))
                    options.includeFencedBrokers(true);
                DescribeClusterResult found = admin.describeCluster(options);
                return only("cluster", together(Map.of(
                    "nodes", found.nodes(),
                    "controller", found.controller(),
                    "clusterId", found.clusterId(),
                    "authorizedOperations", found.authorizedOperations())));
            }
            case "describeFeatures":
                return only("features", admin.describeFeatures().featureMetadata());
            case "updateFeatures": {
                Map<String, FeatureUpdate> updates = new HashMap<>();
                for (JsonNode each : in.get("features"))
                    updates.put(each.get(0).asText(), new FeatureUpdate(
                        (short) each.get(1).asInt(), FeatureUpdate.UpgradeType.valueOf(each.get(2).asText())));
                return byKey(admin.updateFeatures(updates, new UpdateFeaturesOptions().validateOnly(has(in, "validateOnly"))).values());
            }
            case "describeMetadataQuorum":
                return only("quorum", admin.describeMetadataQuorum().quorumInfo());
            case "addRaftVoter":
                return only(in.get("voter").asInt(), admin.addRaftVoter(
                    in.get("voter").asInt(), Uuid.fromString(in.get("directory").asText()),
                    new HashSet<>(each(in.get("endpoints"), each -> new RaftVoterEndpoint(
                        each.get(0).asText(), each.get(1).asText(), each.get(2).asInt())))).all());
            case "removeRaftVoter":
                return only(in.get("voter").asInt(), admin.removeRaftVoter(
                    in.get("voter").asInt(), Uuid.fromString(in.get("directory").asText())).all());
            case "unregisterBroker":
                return only(in.get("broker").asInt(), admin.unregisterBroker(in.get("broker").asInt()).all());
            case "unregisterController":
                return only(in.get("controller").asInt(), admin.unregisterController(in.get("controller").asInt()).all());
            default:
                return null;
        }
    }

    private static Map<String, KafkaFuture<?>> replicas(Admin admin, String method, JsonNode in) {
        switch (method) {
            case "describeLogDirs":
                return byKey(admin.describeLogDirs(each(in.get("brokers"), JsonNode::asInt)).descriptions());
            case "describeReplicaLogDirs":
                return byKey(admin.describeReplicaLogDirs(each(in.get("replicas"), JavaAdmin::replica)).values());
            case "alterReplicaLogDirs": {
                Map<TopicPartitionReplica, String> folders = new HashMap<>();
                for (JsonNode each : in.get("replicas"))
                    folders.put(replica(each), each.get(3).asText());
                return byKey(admin.alterReplicaLogDirs(folders).values());
            }
            case "alterPartitionReassignments": {
                Map<TopicPartition, Optional<NewPartitionReassignment>> moves = new HashMap<>();
                for (JsonNode each : in.get("moves"))
                    moves.put(partition(each), each.get(2).isNull()
                        ? Optional.empty() : Optional.of(new NewPartitionReassignment(each(each.get(2), JsonNode::asInt))));
                AlterPartitionReassignmentsOptions options = new AlterPartitionReassignmentsOptions();
                if (!has(in, "allows"))
                    options.allowReplicationFactorChange(false);
                return byKey(admin.alterPartitionReassignments(moves, options).values());
            }
            case "listPartitionReassignments":
                return only("all", (in.has("partitions")
                    ? admin.listPartitionReassignments(new HashSet<>(each(in.get("partitions"), JavaAdmin::partition)))
                    : admin.listPartitionReassignments()).reassignments());
            case "electLeaders": {
                Set<TopicPartition> asked = in.has("partitions") ? new HashSet<>(each(in.get("partitions"), JavaAdmin::partition)) : null;
                KafkaFuture<?> found = admin.electLeaders(ElectionType.valueOf(in.get("type").asText()), asked).partitions().thenApply(elected -> {
                    Map<String, String> errors = new TreeMap<>();
                    elected.forEach((where, error) -> errors.put(where.toString(), error.map(JavaAdmin::nameOf).orElse(null)));
                    return errors;
                });
                return only("all", found);
            }
            default:
                return null;
        }
    }

    private static Map<String, KafkaFuture<?>> groups(Admin admin, String method, JsonNode in) {
        List<String> groups = in.has("groups") && in.get("groups").isArray() ? texts(in.get("groups")) : List.of();
        switch (method) {
            case "listGroups": {
                ListGroupsOptions options = new ListGroupsOptions();
                if (in.has("states"))
                    options.inGroupStates(new HashSet<>(each(in.get("states"), each -> GroupState.parse(each.asText()))));
                if (in.has("types"))
                    options.withTypes(new HashSet<>(each(in.get("types"), each -> GroupType.parse(each.asText()))));
                if (in.has("protocolTypes"))
                    options.withProtocolTypes(new HashSet<>(texts(in.get("protocolTypes"))));
                return only("all", admin.listGroups(options).all());
            }
            case "listConsumerGroups":
                return only("all", admin.listConsumerGroups(new ListConsumerGroupsOptions()).all());
            case "describeClassicGroups":
                return byKey(admin.describeClassicGroups(groups).describedGroups());
            case "describeConsumerGroups":
                return byKey(admin.describeConsumerGroups(groups).describedGroups());
            case "describeShareGroups":
                return byKey(admin.describeShareGroups(groups).describedGroups());
            case "describeStreamsGroups":
                return byKey(admin.describeStreamsGroups(groups).describedGroups());
            case "deleteConsumerGroups":
                return byKey(admin.deleteConsumerGroups(groups).deletedGroups());
            case "deleteShareGroups":
                return byKey(admin.deleteShareGroups(groups).deletedGroups());
            case "deleteStreamsGroups":
                return byKey(admin.deleteStreamsGroups(groups).deletedGroups());
            case "removeMembersFromConsumerGroup": {
                String group = in.get("group").asText();
                if (!in.has("instances"))
                    return only("all", admin.removeMembersFromConsumerGroup(group, new RemoveMembersFromConsumerGroupOptions()).all());
                List<String> instances = texts(in.get("instances"));
                RemoveMembersFromConsumerGroupResult removed = admin.removeMembersFromConsumerGroup(group,
                    new RemoveMembersFromConsumerGroupOptions(instances.stream().map(MemberToRemove::new).toList()));
                return byKey(instances, instance -> removed.memberResult(new MemberToRemove(instance)));
            }
            default:
                return null;
        }
    }

    private static Map<String, KafkaFuture<?>> groupOffsets(Admin admin, String method, JsonNode in) {
        String group = in.has("group") ? in.get("group").asText() : "";
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        Map<TopicPartition, Long> starts = new HashMap<>();
        if (in.has("offsets"))
            for (JsonNode each : in.get("offsets")) {
                offsets.put(partition(each), new OffsetAndMetadata(each.get(2).asLong(), each.has(3) ? each.get(3).asText() : ""));
                starts.put(partition(each), each.get(2).asLong());
            }
        Set<TopicPartition> partitions = new HashSet<>();
        if (in.has("partitions"))
            partitions.addAll(each(in.get("partitions"), JavaAdmin::partition));
        switch (method) {
            case "listConsumerGroupOffsets": {
                Map<String, ListConsumerGroupOffsetsSpec> specs = new HashMap<>();
                byGroup(in).forEach((name, asked) -> specs.put(name, new ListConsumerGroupOffsetsSpec().topicPartitions(asked)));
                ListConsumerGroupOffsetsResult found = admin.listConsumerGroupOffsets(specs);
                return byKey(specs.keySet(), found::partitionsToOffsetAndMetadata);
            }
            case "listShareGroupOffsets": {
                Map<String, ListShareGroupOffsetsSpec> specs = new HashMap<>();
                byGroup(in).forEach((name, asked) -> specs.put(name, new ListShareGroupOffsetsSpec().topicPartitions(asked)));
                return byKey(specs.keySet(), admin.listShareGroupOffsets(specs)::partitionsToOffsetInfo);
            }
            case "listStreamsGroupOffsets": {
                Map<String, ListStreamsGroupOffsetsSpec> specs = new HashMap<>();
                byGroup(in).forEach((name, asked) -> specs.put(name, new ListStreamsGroupOffsetsSpec().topicPartitions(asked)));
                return byKey(specs.keySet(), admin.listStreamsGroupOffsets(specs)::partitionsToOffsetAndMetadata);
            }
            case "alterConsumerGroupOffsets":
                return byKey(offsets.keySet(), admin.alterConsumerGroupOffsets(group, offsets)::partitionResult);
            case "alterShareGroupOffsets":
                return byKey(starts.keySet(), admin.alterShareGroupOffsets(group, starts)::partitionResult);
            case "alterStreamsGroupOffsets":
                return byKey(offsets.keySet(), admin.alterStreamsGroupOffsets(group, offsets)::partitionResult);
            case "deleteConsumerGroupOffsets":
                return byKey(partitions, admin.deleteConsumerGroupOffsets(group, partitions)::partitionResult);
            case "deleteStreamsGroupOffsets":
                return byKey(partitions, admin.deleteStreamsGroupOffsets(group, partitions)::partitionResult);
            case "deleteShareGroupOffsets": {
                Set<String> topics = new HashSet<>(texts(in.get("topics")));
                return byKey(topics, admin.deleteShareGroupOffsets(group, topics)::topicResult);
            }
            default:
                return null;
        }
    }

    /** ACLs and quotas have the number of their place in the call as keys. */
    private static Map<String, KafkaFuture<?>> security(Admin admin, String method, JsonNode in) {
        switch (method) {
            case "createAcls": {
                List<AclBinding> bindings = each(in.get("acls"), JavaAdmin::acl);
                return byPlace(bindings, admin.createAcls(bindings).values()::get);
            }
            case "describeAcls":
                return only("all", admin.describeAcls(aclFilter(in.get("filter"))).values());
            case "deleteAcls": {
                List<AclBindingFilter> filters = each(in.get("filters"), JavaAdmin::aclFilter);
                return byPlace(filters, admin.deleteAcls(filters).values()::get);
            }
            case "describeClientQuotas": {
                List<ClientQuotaFilterComponent> components = each(in.get("components"), JavaAdmin::quotaComponent);
                return only("all", admin.describeClientQuotas(has(in, "strict")
                    ? ClientQuotaFilter.containsOnly(components) : ClientQuotaFilter.contains(components)).entities());
            }
            case "alterClientQuotas": {
                List<ClientQuotaAlteration> changes = each(in.get("changes"), JavaAdmin::quotaChange);
                AlterClientQuotasResult done = admin.alterClientQuotas(changes, new AlterClientQuotasOptions().validateOnly(has(in, "validateOnly")));
                return byPlace(changes, change -> done.values().get(change.entity()));
            }
            case "describeUserScramCredentials": {
                List<String> users = texts(in.get("users"));
                return byKey(users, admin.describeUserScramCredentials(users)::description);
            }
            case "alterUserScramCredentials": {
                List<UserScramCredentialAlteration> changes = each(in.get("changes"), JavaAdmin::scramChange);
                return byKey(admin.alterUserScramCredentials(changes).values());
            }
            default:
                return null;
        }
    }

    private static Map<String, KafkaFuture<?>> transactions(Admin admin, String method, JsonNode in) {
        switch (method) {
            case "describeProducers": {
                DescribeProducersOptions options = new DescribeProducersOptions();
                if (in.has("broker"))
                    options.brokerId(in.get("broker").asInt());
                List<TopicPartition> partitions = each(in.get("partitions"), JavaAdmin::partition);
                return byKey(partitions, admin.describeProducers(partitions, options)::partitionResult);
            }
            case "describeTransactions": {
                List<String> ids = texts(in.get("ids"));
                return byKey(ids, admin.describeTransactions(ids)::description);
            }
            case "listTransactions":
                return only("all", admin.listTransactions(transactionFilter(in)).all());
            case "abortTransaction": {
                TopicPartition where = partition(in.get("partition"));
                AbortTransactionSpec spec = new AbortTransactionSpec(
                    where, in.get("producerId").asLong(), (short) in.get("producerEpoch").asInt(), in.get("coordinatorEpoch").asInt());
                return only(where, admin.abortTransaction(spec).all());
            }
            case "fenceProducers": {
                FenceProducersResult fenced = admin.fenceProducers(texts(in.get("ids")));
                return byKey(fenced.fencedProducers().keySet(), id -> together(Map.of(
                    "producerId", fenced.producerId(id), "epochId", fenced.epochId(id))));
            }
            case "forceTerminateTransaction":
                return only(in.get("id").asText(), admin.forceTerminateTransaction(in.get("id").asText()).result());
            default:
                return null;
        }
    }

    // -- arguments

    private static ListTransactionsOptions transactionFilter(JsonNode in) {
        ListTransactionsOptions options = new ListTransactionsOptions();
        if (in.has("states"))
            options.filterStates(each(in.get("states"), state -> TransactionState.parse(state.asText())));
        if (in.has("producerIds"))
            options.filterProducerIds(each(in.get("producerIds"), JsonNode::asLong));
        if (in.has("duration"))
            options.filterOnDuration(in.get("duration").asLong());
        if (in.has("pattern"))
            options.filterOnTransactionalIdPattern(in.get("pattern").asText());
        return options;
    }

    private static NewTopic newTopic(JsonNode in) {
        String name = in.get("name").asText();
        Map<String, String> config = new HashMap<>();
        if (in.has("config"))
            in.get("config").properties().forEach(entry -> config.put(entry.getKey(), entry.getValue().asText()));
        if (in.has("assignment")) {
            Map<Integer, List<Integer>> replicas = new TreeMap<>();
            for (JsonNode brokers : in.get("assignment"))
                replicas.put(replicas.size(), each(brokers, JsonNode::asInt));
            return new NewTopic(name, replicas).configs(config);
        }
        Optional<Integer> partitions = in.has("partitions") ? Optional.of(in.get("partitions").asInt()) : Optional.empty();
        Optional<Short> replicas = in.has("replicas") ? Optional.of((short) in.get("replicas").asInt()) : Optional.empty();
        return new NewTopic(name, partitions, replicas).configs(config);
    }

    private static TopicPartition partition(JsonNode in) {
        return new TopicPartition(in.get(0).asText(), in.get(1).asInt());
    }

    private static OffsetSpec offsetSpec(JsonNode in) {
        if (in.isNumber())
            return OffsetSpec.forTimestamp(in.asLong());
        switch (in.asText()) {
            case "latest":
                return OffsetSpec.latest();
            case "earliest":
                return OffsetSpec.earliest();
            case "maxTimestamp":
                return OffsetSpec.maxTimestamp();
            case "earliestLocal":
                return OffsetSpec.earliestLocal();
            case "latestTiered":
                return OffsetSpec.latestTiered();
            default:
                return OffsetSpec.earliestPendingUpload();
        }
    }

    private static ConfigResource resource(JsonNode in) {
        return new ConfigResource(ConfigResource.Type.valueOf(in.get(0).asText()), in.get(1).asText());
    }

    private static String nameOf(ConfigResource resource) {
        return resource.type() + ":" + resource.name();
    }

    private static TopicPartitionReplica replica(JsonNode in) {
        return new TopicPartitionReplica(in.get(0).asText(), in.get(1).asInt(), in.get(2).asInt());
    }

    /** The partitions to ask about by group; null: all. */
    private static Map<String, List<TopicPartition>> byGroup(JsonNode in) {
        Map<String, List<TopicPartition>> found = new HashMap<>();
        in.get("groups").properties().forEach(entry ->
            found.put(entry.getKey(), entry.getValue().isNull() ? null : each(entry.getValue(), JavaAdmin::partition)));
        return found;
    }

    /** [resource type, name, pattern type, principal, host, operation, permission type] */
    private static AclBinding acl(JsonNode in) {
        return new AclBinding(
            new ResourcePattern(ResourceType.fromString(in.get(0).asText()), in.get(1).asText(), PatternType.fromString(in.get(2).asText().toUpperCase(Locale.ROOT))),
            new AccessControlEntry(in.get(3).asText(), in.get(4).asText(),
                AclOperation.fromString(in.get(5).asText()), AclPermissionType.fromString(in.get(6).asText())));
    }

    /** As `acl`; null is any name, principal or host. */
    private static AclBindingFilter aclFilter(JsonNode in) {
        return new AclBindingFilter(
            new ResourcePatternFilter(ResourceType.fromString(in.get(0).asText()), text(in.get(1)), PatternType.fromString(in.get(2).asText().toUpperCase(Locale.ROOT))),
            new AccessControlEntryFilter(text(in.get(3)), text(in.get(4)),
                AclOperation.fromString(in.get(5).asText()), AclPermissionType.fromString(in.get(6).asText())));
    }

    /** [entity type] for any name, [entity type, null] for the default, [entity type, name] */
    private static ClientQuotaFilterComponent quotaComponent(JsonNode in) {
        String type = in.get(0).asText();
        if (!in.has(1))
            return ClientQuotaFilterComponent.ofEntityType(type);
        return in.get(1).isNull() ? ClientQuotaFilterComponent.ofDefaultEntity(type) : ClientQuotaFilterComponent.ofEntity(type, in.get(1).asText());
    }

    /** [{entity type: name or null}, {quota: value or null}] */
    private static ClientQuotaAlteration quotaChange(JsonNode in) {
        Map<String, String> entity = new HashMap<>();
        in.get(0).properties().forEach(entry -> entity.put(entry.getKey(), text(entry.getValue())));
        List<ClientQuotaAlteration.Op> changes = new ArrayList<>();
        in.get(1).properties().forEach(entry -> changes.add(new ClientQuotaAlteration.Op(
            entry.getKey(), entry.getValue().isNull() ? null : entry.getValue().asDouble())));
        return new ClientQuotaAlteration(new ClientQuotaEntity(entity), changes);
    }

    /** [user, mechanism] to delete, [user, mechanism, iterations, password] to set */
    private static UserScramCredentialAlteration scramChange(JsonNode in) {
        ScramMechanism mechanism = ScramMechanism.fromMechanismName(in.get(1).asText());
        if (!in.has(2))
            return new UserScramCredentialDeletion(in.get(0).asText(), mechanism);
        return new UserScramCredentialUpsertion(in.get(0).asText(), new ScramCredentialInfo(mechanism, in.get(2).asInt()), in.get(3).asText());
    }

    private static String text(JsonNode in) {
        return in.isNull() ? null : in.asText();
    }

    private static List<String> texts(JsonNode in) {
        return each(in, JsonNode::asText);
    }

    private static <T> List<T> each(JsonNode in, Function<JsonNode, T> convert) {
        List<T> found = new ArrayList<>();
        in.forEach(element -> found.add(convert.apply(element)));
        return found;
    }

    private static boolean has(JsonNode in, String name) {
        return in.has(name) && in.get(name).asBoolean();
    }

    // -- futures by key

    private static Map<String, KafkaFuture<?>> only(Object key, KafkaFuture<?> future) {
        return byKey(List.of(key), each -> future);
    }

    private static Map<String, KafkaFuture<?>> byKey(Map<?, ? extends KafkaFuture<?>> futures) {
        return byKey(futures.keySet(), futures::get);
    }

    private static <K> Map<String, KafkaFuture<?>> byKey(Collection<K> keys, Function<K, KafkaFuture<?>> futureOf) {
        return byKey(keys, String::valueOf, futureOf);
    }

    private static <K> Map<String, KafkaFuture<?>> byKey(Collection<K> keys, Function<K, String> nameOf, Function<K, KafkaFuture<?>> futureOf) {
        Map<String, KafkaFuture<?>> found = new TreeMap<>();
        keys.forEach(key -> found.put(nameOf.apply(key), futureOf.apply(key)));
        return found;
    }

    private static <K> Map<String, KafkaFuture<?>> byPlace(List<K> keys, Function<K, KafkaFuture<?>> futureOf) {
        Map<String, KafkaFuture<?>> found = new TreeMap<>();
        for (int place = 0; place < keys.size(); place++)
            found.put(String.valueOf(place), futureOf.apply(keys.get(place)));
        return found;
    }

    /** The parts of a result that has a future for each part. */
    private static KafkaFuture<?> together(Map<String, KafkaFuture<?>> parts) {
        return KafkaFuture.allOf(parts.values().toArray(new KafkaFuture<?>[0])).thenApply(done -> {
            Map<String, Object> found = new TreeMap<>();
            parts.forEach((name, part) -> {
                try {
                    found.put(name, part.getNow(null));
                } catch (InterruptedException | ExecutionException error) {
                    throw new IllegalStateException(error);
                }
            });
            return found;
        });
    }

    // -- results

    private static JsonNode shown(Object value) throws Exception {
        if (value instanceof Optional<?> optional)
            return shown(optional.orElse(null));
        if (value instanceof OptionalInt optional)
            return shown(optional.isPresent() ? optional.getAsInt() : null);
        if (value instanceof OptionalLong optional)
            return shown(optional.isPresent() ? optional.getAsLong() : null);
        if (value instanceof OptionalDouble optional)
            return shown(optional.isPresent() ? optional.getAsDouble() : null);
        if (value == null || value instanceof String || value instanceof Number || value instanceof Boolean || value instanceof byte[])
            return JSON.valueToTree(value);
        if (value instanceof Enum<?> || value instanceof Uuid || value instanceof Class<?>)
            return JSON.valueToTree(value.toString());
        if (value instanceof Map<?, ?> map) {
            ObjectNode node = JSON.createObjectNode();
            for (Map.Entry<?, ?> entry : map.entrySet())
                node.set(String.valueOf(entry.getKey()), shown(entry.getValue()));
            return node;
        }
        if (value instanceof Collection<?> collection) {
            ArrayNode node = JSON.createArrayNode();
            for (Object element : collection)
                node.add(shown(element));
            return node;
        }
        return shownObject(value);
    }

    private static ObjectNode shownObject(Object value) throws Exception {
        ObjectNode node = JSON.createObjectNode();
        for (Method method : value.getClass().getMethods()) {
            boolean reads = method.getParameterCount() == 0 && !Modifier.isStatic(method.getModifiers());
            boolean converts = method.getName().matches("to[A-Z].*") || method.getReturnType() == value.getClass();
            if (!reads || converts || method.getReturnType() == void.class || NOT_SHOWN.contains(method.getName()))
                continue;
            try {
                node.set(method.getName(), shown(method.invoke(value)));
            } catch (InvocationTargetException refused) {
                node.putNull(method.getName());
            }
        }
        return node;
    }

    private static Set<String> names() {
        Set<String> found = new TreeSet<>();
        for (Method method : Admin.class.getMethods())
            if (!Modifier.isStatic(method.getModifiers()))
                found.add(method.getName());
        return found;
    }

    /** Kafka's name of an error, or of the error that it wraps; the name of Java's class if neither has one. */
    private static String nameOf(Throwable error) {
        Errors known = Errors.forException(error);
        boolean isNamed = known != Errors.UNKNOWN_SERVER_ERROR || error instanceof UnknownServerException;
        if (!isNamed && error.getCause() instanceof ApiException cause)
            return nameOf(cause);
        return isNamed ? known.name() : error.getClass().getSimpleName();
    }
}
