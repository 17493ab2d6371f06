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
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Members of share groups with the Java client, behind a pipe: a command per line of standard input, as JSON, and its
 * answer per line of standard output.
 *
 * <pre>
 * {"do": "open", "name": n, "config": {...}, "topics": [t...]} -> {}
 * {"do": "poll", "name": n, "wait": ms} -> {"records": [[topic, partition, offset, deliveries, value]...]}
 * {"do": "say", "name": n, "said": [[topic, partition, offset, type]...]} -> {}
 * {"do": "commit", "name": n} -> {"errors": [text...]}
 * {"do": "close", "name": n} -> {}
 * </pre>
 *
 * An answer to what has failed is {"error": text}.
 */
public final class ShareMember {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<String, KafkaShareConsumer<byte[], byte[]>> MEMBERS = new HashMap<>();

    private static final Map<String, ConsumerRecord<byte[], byte[]>> POLLED = new HashMap<>();

    private ShareMember() {}

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            ObjectNode answer;
            try {
                answer = run(JSON.readTree(line));
            } catch (Exception problem) {
                answer = JSON.createObjectNode().put("error", problem.toString());
            }
            answers.println(JSON.writeValueAsString(answer));
        }
        System.exit(0);
    }

    private static String key(String name, String topic, int partition, long offset) {
        return name + " " + topic + " " + partition + " " + offset;
    }

    private static ObjectNode run(JsonNode command) {
        String name = command.get("name").asText();
        ObjectNode answer = JSON.createObjectNode();
        KafkaShareConsumer<byte[], byte[]> member = MEMBERS.get(name);
        switch (command.get("do").asText()) {
            case "open":
                Map<String, Object> config = new HashMap<>();
                command.get("config").properties().forEach(each -> config.put(each.getKey(), each.getValue().asText()));
                member = new KafkaShareConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
                MEMBERS.put(name, member);
                List<String> topics = new ArrayList<>();
                command.get("topics").forEach(each -> topics.add(each.asText()));
                member.subscribe(topics);
                return answer;
            case "poll":
                ArrayNode seen = answer.putArray("records");
                for (ConsumerRecord<byte[], byte[]> each : member.poll(Duration.ofMillis(command.get("wait").asLong()))) {
                    POLLED.put(key(name, each.topic(), each.partition(), each.offset()), each);
                    seen.addArray()
                        .add(each.topic())
                        .add(each.partition())
                        .add(each.offset())
                        .add(each.deliveryCount().orElse((short) 0))
                        .add(new String(each.value(), StandardCharsets.UTF_8));
                }
                return answer;
            case "say":
                for (JsonNode each : command.get("said")) {
                    String polled = key(name, each.get(0).asText(), each.get(1).asInt(), each.get(2).asLong());
                    member.acknowledge(POLLED.get(polled), AcknowledgeType.valueOf(each.get(3).asText()));
                }
                return answer;
            case "commit":
                ArrayNode errors = answer.putArray("errors");
                member.commitSync().forEach(
                    (place, error) -> error.ifPresent(its -> errors.add(place.topicPartition() + ": " + its)));
                return answer;
            case "close":
                MEMBERS.remove(name).close();
                return answer;
            default:
                throw new IllegalArgumentException("unknown command " + command.get("do"));
        }
    }
}
