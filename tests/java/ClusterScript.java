import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterPartitionReassignmentsOptions;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.FeatureUpdate.UpgradeType;
import org.apache.kafka.clients.admin.LogDirDescription;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.QuorumInfo;
import org.apache.kafka.clients.admin.RaftVoterEndpoint;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.Errors;

/** The cluster and its replicas by Java's client, a line of output for each step: {@code ClusterScript <bootstrap> <topic>}. */
public final class ClusterScript {
    private ClusterScript() {}

    public static void main(String[] arguments) throws Exception {
        TopicPartition first = new TopicPartition(arguments[1], 0);
        TopicPartition none = new TopicPartition(arguments[1], 7);
        TopicPartitionReplica here = new TopicPartitionReplica(arguments[1], 0, 1);
        TopicPartitionReplica gone = new TopicPartitionReplica(arguments[1], 7, 1);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0]))) {
            DescribeClusterOptions all = new DescribeClusterOptions().includeFencedBrokers(true).includeAuthorizedOperations(true);
            say("brokers", () -> admin.describeCluster(all).nodes().thenApply(found -> found.stream().map(each -> each.id()).sorted().toList()));
            say("controller", () -> admin.describeCluster().controller().thenApply(each -> each.id()));
            say("operations", () -> admin.describeCluster(all).authorizedOperations().thenApply(
                found -> found.stream().map(each -> each.name().replace("_", "")).sorted().toList()));
            say("finalized", () -> admin.describeFeatures().featureMetadata().thenApply(found -> new TreeMap<>(found.finalizedFeatures()).entrySet().stream()
                .map(each -> each.getKey() + " " + each.getValue().minVersionLevel() + " " + each.getValue().maxVersionLevel()).toList()));
            say("supported", () -> admin.describeFeatures().featureMetadata().thenApply(found -> new TreeMap<>(found.supportedFeatures()).entrySet().stream()
                .map(each -> each.getKey() + " " + each.getValue().minVersion() + " " + each.getValue().maxVersion()).toList()));
            say("quorum", () -> admin.describeMetadataQuorum().quorumInfo().thenApply(ClusterScript::shown));
            say("raise", () -> update(admin, "share.version", (short) 1, UpgradeType.UPGRADE));
            say("lower", () -> update(admin, "share.version", (short) 0, UpgradeType.SAFE_DOWNGRADE));
            say("beyond", () -> update(admin, "share.version", (short) 99, UpgradeType.UPGRADE));
            say("nothing", () -> update(admin, "no.such", (short) 1, UpgradeType.UPGRADE));
            say("metadata", () -> update(admin, "metadata.version", (short) 7, UpgradeType.SAFE_DOWNGRADE));
            say("unsafe", () -> update(admin, "metadata.version", (short) 7, UpgradeType.UNSAFE_DOWNGRADE));
            say("broker", () -> admin.unregisterBroker(77).all());
            say("unknown controller", () -> admin.unregisterController(77).all());
            say("voter", () -> admin.removeRaftVoter(77, Uuid.fromString("AAAAAAAAAAAAAAAAAAAABw")).all());
            say("again", () -> admin.addRaftVoter(1, Uuid.fromString("AAAAAAAAAAAAAAAAAAAABw"),
                Set.of(new RaftVoterEndpoint("CONTROLLER", "localhost", 1))).all());
            say("dirs", () -> admin.describeLogDirs(List.of(1)).allDescriptions().thenApply(found -> shown(found.get(1), first)));
            say("replica", () -> admin.describeReplicaLogDirs(List.of(here)).all().thenApply(found -> shown(found.get(here).getCurrentReplicaLogDir(),
                found.get(here).getCurrentReplicaOffsetLag(), found.get(here).getFutureReplicaLogDir())));
            say("no replica", () -> admin.describeReplicaLogDirs(List.of(gone)).all().thenApply(found -> shown(found.get(gone).getCurrentReplicaLogDir(),
                null, found.get(gone).getFutureReplicaLogDir())));
            say("wrong dir", () -> admin.alterReplicaLogDirs(Map.of(here, "/none")).all());
            String path = admin.describeLogDirs(List.of(1)).allDescriptions().get().get(1).keySet().iterator().next();
            say("same dir", () -> admin.alterReplicaLogDirs(Map.of(here, path)).all());
            say("no such replica", () -> admin.alterReplicaLogDirs(Map.of(gone, path)).all());
            say("move", () -> move(admin, first, List.of(9), true));
            say("stay", () -> move(admin, first, List.of(1), false));
            say("factor", () -> move(admin, first, List.of(1, 1), false));
            say("missing", () -> move(admin, none, List.of(1), true));
            say("cancel", () -> admin.alterPartitionReassignments(Map.of(first, Optional.empty())).all());
            say("moves", () -> admin.listPartitionReassignments(Set.of(first)).reassignments());
            say("preferred", () -> admin.electLeaders(ElectionType.PREFERRED, Set.of(first)).all());
            say("unclean", () -> admin.electLeaders(ElectionType.UNCLEAN, Set.of(first)).all());
            say("absent", () -> admin.electLeaders(ElectionType.PREFERRED, Set.of(none)).all());
            say("all", () -> admin.electLeaders(ElectionType.PREFERRED, null).partitions().thenApply(Map::size));
        }
    }

    private static KafkaFuture<Void> update(Admin admin, String feature, short level, UpgradeType type) {
        return admin.updateFeatures(Map.of(feature, new FeatureUpdate(level, type)), new UpdateFeaturesOptions().validateOnly(true)).all();
    }

    private static KafkaFuture<Void> move(Admin admin, TopicPartition partition, List<Integer> replicas, boolean changes) {
        return admin.alterPartitionReassignments(Map.of(partition, Optional.of(new NewPartitionReassignment(replicas))),
            new AlterPartitionReassignmentsOptions().allowReplicationFactorChange(changes)).all();
    }

    private static String shown(QuorumInfo found) {
        List<String> voters = found.voters().stream().map(each -> each.replicaId() + " " + each.replicaDirectoryId() + " "
            + each.lastFetchTimestamp().isPresent() + " " + each.lastCaughtUpTimestamp().isPresent()).toList();
        List<String> endpoints = found.nodes().values().stream().flatMap(each -> each.endpoints().stream())
            .map(each -> each.listener() + " " + each.host() + " " + each.port()).toList();
        return found.leaderId() + " " + found.leaderEpoch() + " " + voters + " " + found.observers().size() + " " + endpoints;
    }

    private static String shown(Map<String, LogDirDescription> dirs, TopicPartition partition) {
        return new TreeMap<>(dirs).entrySet().stream().map(each -> each.getKey() + " " + each.getValue().totalBytes().getAsLong() + " "
            + each.getValue().usableBytes().isPresent() + " " + each.getValue().isCordoned() + " "
            + each.getValue().replicaInfos().get(partition).size() + " " + each.getValue().replicaInfos().get(partition).offsetLag() + " "
            + each.getValue().replicaInfos().get(partition).isFuture()).collect(Collectors.joining("; "));
    }

    private static String shown(Object... values) {
        return new java.util.ArrayList<>(java.util.Arrays.asList(values)).toString();
    }

    private static void say(String step, Callable<KafkaFuture<?>> call) throws Exception {
        String outcome;
        try {
            Object found = call.call().get(30, TimeUnit.SECONDS);
            outcome = found == null ? "done" : found.toString();
        } catch (ExecutionException error) {
            Errors known = Errors.forException(error.getCause());
            outcome = known.name();
        }
        System.out.println("> " + step + ": " + outcome);
    }
}
