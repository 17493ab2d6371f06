import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.SimpleAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/** The coordinator's assignor of share groups. */
public class ShareAssignor {
    /**
     * What each member is given, as JSON: {"even", "topics": {id: partitions}, "members": {name: {"wanted": [id],
     * "before": {id: [partition]}}}} to {name: [[id, partition]]}.
     */
    static byte[][] assign(JsonNode asked) throws Exception {
        Map<Uuid, Integer> partitions = new HashMap<>();
        asked.get("topics").properties().forEach(
                each -> partitions.put(Uuid.fromString(each.getKey()), each.getValue().asInt()));
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        asked.get("members").properties().forEach(each -> members.put(each.getKey(), member(each.getValue())));
        SubscriptionType type =
                asked.get("even").asBoolean() ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        SubscribedTopicDescriber topics = new SubscribedTopicDescriber() {
            @Override
            public int numPartitions(Uuid id) {
                return partitions.getOrDefault(id, -1);
            }

            @Override
            public Set<String> racksForPartition(Uuid id, int partition) {
                return Set.of();
            }
        };
        GroupAssignment found = new SimpleAssignor().assign(
                new GroupSpecImpl(Collections.unmodifiableMap(members), type, Map.of()), topics);
        var answer = Oracle.MAPPER.createObjectNode();
        found.members().forEach((name, its) -> {
            ArrayNode given = answer.putArray(name);
            its.partitions().forEach(
                    (id, indexes) -> indexes.forEach(index -> given.addArray().add(id.toString()).add(index)));
        });
        return new byte[][] {Oracle.MAPPER.writeValueAsBytes(answer)};
    }

    private static MemberSubscriptionAndAssignmentImpl member(JsonNode asked) {
        Set<Uuid> wanted = new LinkedHashSet<>();
        asked.get("wanted").forEach(id -> wanted.add(Uuid.fromString(id.asText())));
        Map<Uuid, Set<Integer>> before = new HashMap<>();
        asked.get("before").properties().forEach(each -> {
            Set<Integer> indexes = new HashSet<>();
            each.getValue().forEach(index -> indexes.add(index.asInt()));
            before.put(Uuid.fromString(each.getKey()), indexes);
        });
        return new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(), Optional.empty(), wanted, new Assignment(Collections.unmodifiableMap(before)));
    }
}
