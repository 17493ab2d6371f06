import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.quota.ClientQuotaFilterComponent;

/** Administration by Java's client, a line of output for each step: {@code AdminScript <bootstrap> <prefix>}. */
public final class AdminScript {
    private static final ClientQuotaEntity SETTLED = new ClientQuotaEntity(Map.of(ClientQuotaEntity.CLIENT_ID, "settled-java"));
    private static Admin other;
    private static double mark = 1_000_000;

    private AdminScript() {}

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1] + ".four";
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0]))) {
            other = admin;
            NewTopic made = new NewTopic(topic, Optional.of(2), Optional.of((short) 1)).configs(Map.of("retention.ms", "1000"));
            say("create", () -> admin.createTopics(List.of(made)).all());
            say("again", () -> admin.createTopics(List.of(made)).all());
            say("name", () -> admin.createTopics(List.of(new NewTopic("a b", 1, (short) 1))).all());
            say("factor", () -> admin.createTopics(List.of(new NewTopic("n", 1, (short) 9))).all());
            say("option", () -> admin.createTopics(List.of(new NewTopic("n", 1, (short) 1).configs(Map.of("nope", "1")))).all());
            say("assigned", () -> admin.createTopics(List.of(new NewTopic("n", Map.of(0, List.of(9))))).all());
            say("grow", () -> admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all());
            say("shrink", () -> admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(1))).all());
            say("append", () -> alter(admin, resource, "cleanup.policy", "compact", AlterConfigOp.OpType.APPEND));
            say("wrong", () -> alter(admin, resource, "retention.ms", "x", AlterConfigOp.OpType.SET));
            say("unset", () -> alter(admin, resource, "retention.ms", null, AlterConfigOp.OpType.DELETE));
            say("describe", () -> admin.describeConfigs(List.of(resource)).all().thenApply(found -> shown(found.get(resource))));
            say("topics", () -> admin.describeTopics(List.of(topic)).allTopicNames().thenApply(found -> found.get(topic).partitions().size()));
            say("unknown", () -> admin.describeTopics(List.of("not-there")).allTopicNames());
            say("cluster", () -> admin.describeCluster().nodes().thenApply(Collection::size));
            TopicPartition first = new TopicPartition(topic, 0);
            say("records", () -> admin.deleteRecords(Map.of(first, RecordsToDelete.beforeOffset(1))).all());
            say("all records", () -> admin.deleteRecords(Map.of(first, RecordsToDelete.beforeOffset(-1))).all());
            say("dirs", () -> admin.describeLogDirs(List.of(1)).allDescriptions().thenApply(
                found -> found.get(1).values().iterator().next().replicaInfos().keySet().stream().filter(each -> each.topic().equals(topic)).count()));
            say("elect", () -> admin.electLeaders(ElectionType.PREFERRED, java.util.Set.of(first)).all());
            say("move", () -> admin.alterPartitionReassignments(Map.of(first, Optional.of(new NewPartitionReassignment(List.of(9))))).all());
            say("cancel", () -> admin.alterPartitionReassignments(Map.of(first, Optional.empty())).all());
            say("moves", () -> admin.listPartitionReassignments().reassignments());
            ClientQuotaEntity user = new ClientQuotaEntity(Map.of(ClientQuotaEntity.USER, arguments[1]));
            say("quota", () -> quota(admin, user, 1e9));
            say("wrong quota", () -> quota(admin, user, -1.0));
            say("quotas", () -> admin.describeClientQuotas(ClientQuotaFilter.containsOnly(
                List.of(ClientQuotaFilterComponent.ofEntity(ClientQuotaEntity.USER, arguments[1])))).entities());
            say("no quota", () -> quota(admin, user, null));
            say("delete", () -> admin.deleteTopics(List.of(topic)).all());
            say("gone", () -> admin.deleteTopics(List.of("not-there")).all());
        }
    }

    /**
     * Return when the broker has applied all that the controller has decided. It applies one change after the other, and
     * shows each before it has applied it: when the second of two is seen, the first and all before it are applied.
     */
    private static void settle() throws Exception {
        ClientQuotaFilter filter = ClientQuotaFilter.containsOnly(
            List.of(ClientQuotaFilterComponent.ofEntity(ClientQuotaEntity.CLIENT_ID, "settled-java")));
        for (int change = 0; change < 2; change++) {
            mark++;
            quota(other, SETTLED, mark).get(30, TimeUnit.SECONDS);
            long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
            while (!other.describeClientQuotas(filter).entities().get(30, TimeUnit.SECONDS).getOrDefault(SETTLED, Map.of()).containsValue(mark)) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("the broker has not applied what was decided");
                }
            }
        }
        quota(other, SETTLED, null).get(30, TimeUnit.SECONDS);
    }

    private static KafkaFuture<Void> quota(Admin admin, ClientQuotaEntity user, Double value) {
        ClientQuotaAlteration.Op op = new ClientQuotaAlteration.Op("producer_byte_rate", value);
        return admin.alterClientQuotas(List.of(new ClientQuotaAlteration(user, List.of(op)))).all();
    }

    private static KafkaFuture<Void> alter(Admin admin, ConfigResource resource, String name, String value, AlterConfigOp.OpType type) {
        AlterConfigOp op = new AlterConfigOp(new ConfigEntry(name, value), type);
        return admin.incrementalAlterConfigs(Map.of(resource, List.of(op))).all();
    }

    private static Map<String, String> shown(Config config) {
        Map<String, String> found = new TreeMap<>();
        config.entries().forEach(each -> found.put(each.name(), each.value()));
        return found;
    }

    private static void say(String step, Callable<KafkaFuture<?>> call) throws Exception {
        String line;
        try {
            line = String.valueOf(call.call().get(30, TimeUnit.SECONDS));
        } catch (ExecutionException error) {
            line = error.getCause().toString();
        }
        System.out.println("> " + step + ": " + line);
        settle();
    }
}
