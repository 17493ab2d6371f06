import com.fasterxml.jackson.databind.JsonNode;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/** Java's assignors of classic groups, asked with the bytes that members send. */
public class Assignors {
    private static ConsumerPartitionAssignor named(String name) {
        switch (name) {
            case "range":
                return new RangeAssignor();
            case "roundrobin":
                return new RoundRobinAssignor();
            case "sticky":
                return new StickyAssignor();
            case "cooperative-sticky":
                return new CooperativeStickyAssignor();
            default:
                throw new IllegalArgumentException("no such assignor: " + name);
        }
    }

    /**
     * What each member is given, as bytes. The words: the assignor, topics as JSON (of each partition the racks of its
     * replicas), and of each member its id, its instance id or nothing, and its subscription.
     */
    static byte[][] assign(byte[][] words) throws Exception {
        Cluster cluster = cluster(Oracle.MAPPER.readTree(words[2]));
        List<String> ids = new ArrayList<>();
        Map<String, Subscription> members = new HashMap<>();
        for (int i = 3; i < words.length; i += 3) {
            Subscription subscription = ConsumerProtocol.deserializeSubscription(ByteBuffer.wrap(words[i + 2]));
            subscription.setGroupInstanceId(Optional.of(Oracle.text(words[i + 1])).filter(id -> !id.isEmpty()));
            ids.add(Oracle.text(words[i]));
            members.put(Oracle.text(words[i]), subscription);
        }
        Map<String, Assignment> found =
                named(Oracle.text(words[1])).assign(cluster, new GroupSubscription(members)).groupAssignment();
        byte[][] answer = new byte[ids.size()][];
        for (int i = 0; i < answer.length; i++)
            answer[i] = Oracle.bytes(ConsumerProtocol.serializeAssignment(found.get(ids.get(i))));
        return answer;
    }

    /** The subscription of a member who was given `owned` in a generation, and joins again. */
    static byte[][] subscribe(String name, JsonNode member) {
        ConsumerPartitionAssignor assignor = named(name);
        List<String> topics = new ArrayList<>();
        member.get("topics").forEach(topic -> topics.add(topic.asText()));
        List<TopicPartition> owned = new ArrayList<>();
        member.get("owned").forEach(each -> owned.add(new TopicPartition(each.get(0).asText(), each.get(1).asInt())));
        int generation = member.get("generation").asInt();
        if (generation >= 0)
            assignor.onAssignment(new Assignment(owned), new ConsumerGroupMetadata("g", generation, "m", Optional.empty()));
        ByteBuffer userData = assignor.subscriptionUserData(new HashSet<>(topics));
        Optional<String> rack = Optional.ofNullable(member.get("rack").textValue());
        Subscription subscription = new Subscription(topics, userData, owned, generation, rack);
        return new byte[][] {Oracle.bytes(ConsumerProtocol.serializeSubscription(subscription))};
    }

    private static Cluster cluster(JsonNode topics) {
        Map<String, Node> nodes = new HashMap<>();
        List<PartitionInfo> partitions = new ArrayList<>();
        topics.fields().forEachRemaining(topic -> {
            int number = 0;
            for (JsonNode racks : topic.getValue()) {
                List<Node> replicas = new ArrayList<>();
                racks.forEach(rack -> replicas.add(nodes.computeIfAbsent(
                        rack.asText(), name -> new Node(nodes.size(), "localhost", 1 + nodes.size(), name))));
                if (replicas.isEmpty())
                    replicas.add(nodes.computeIfAbsent("", name -> new Node(nodes.size(), "localhost", 1 + nodes.size())));
                Node[] all = replicas.toArray(new Node[0]);
                partitions.add(new PartitionInfo(topic.getKey(), number++, all[0], all, all));
            }
        });
        return new Cluster("cluster", nodes.values(), partitions, Set.of(), Set.of());
    }
}
