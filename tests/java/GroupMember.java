import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Members of consumer groups with the Java client, each in a thread of its own, behind a pipe: a command per line of
 * standard input, as JSON, and its answer per line of standard output.
 *
 * <pre>
 * {"do": "join", "name": n, "config": {...}, "topic": t} -> {}
 * {"do": "look", "name": n} -> {"assigned": [partition...], "records": [[partition, offset]...], "error": text or null}
 * {"do": "close", "name": n} -> {}
 * </pre>
 *
 * A member commits what it has polled before partitions are taken from it, and before it closes.
 */
public final class GroupMember implements Runnable, ConsumerRebalanceListener {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<String, GroupMember> MEMBERS = new HashMap<>();

    private final KafkaConsumer<byte[], byte[]> consumer;
    private final String topic;
    private final List<int[]> records = new ArrayList<>();
    private final Thread thread = new Thread(this);
    private Set<TopicPartition> assigned = Set.of();
    private String error;
    private volatile boolean ends;

    private GroupMember(Map<String, Object> config, String topic) {
        this.consumer = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        this.topic = topic;
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            answers.println(JSON.writeValueAsString(run(JSON.readTree(line))));
        }
        System.exit(0);
    }

    private static ObjectNode run(JsonNode command) throws Exception {
        String name = command.get("name").asText();
        ObjectNode answer = JSON.createObjectNode();
        switch (command.get("do").asText()) {
            case "join":
                Map<String, Object> config = new HashMap<>();
                command.get("config").properties().forEach(each -> config.put(each.getKey(), each.getValue().asText()));
                GroupMember member = new GroupMember(config, command.get("topic").asText());
                MEMBERS.put(name, member);
                member.thread.start();
                return answer;
            case "look":
                MEMBERS.get(name).look(answer);
                return answer;
            case "close":
                GroupMember closing = MEMBERS.get(name);
                closing.ends = true;
                closing.thread.join();
                return answer;
            default:
                throw new IllegalArgumentException("unknown command " + command.get("do"));
        }
    }

    private synchronized void look(ObjectNode answer) {
        ArrayNode partitions = answer.putArray("assigned");
        assigned.forEach(each -> partitions.add(each.partition()));
        ArrayNode seen = answer.putArray("records");
        records.forEach(each -> seen.addArray().add(each[0]).add(each[1]));
        answer.put("error", error);
    }

    @Override
    public void run() {
        try {
            consumer.subscribe(List.of(topic), this);
            while (!ends) {
                var polled = consumer.poll(Duration.ofMillis(50));
                synchronized (this) {
                    polled.forEach(each -> records.add(new int[] {each.partition(), (int) each.offset()}));
                    assigned = Set.copyOf(consumer.assignment());
                }
            }
            consumer.commitSync();
        } catch (Exception problem) {
            synchronized (this) {
                error = problem.toString();
            }
        } finally {
            consumer.close();
        }
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        consumer.commitSync();
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {}

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {}
}
