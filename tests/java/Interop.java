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
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The Java client behind a pipe: a command per line of standard input, as JSON, and its answer per line of standard
 * output. One process serves a whole test session, because a JVM's start costs more than most tests.
 *
 * <pre>
 * {"do": "produce", "config": {...}, "topic": t, "records": [[partition, timestamp, key, value, [[name, value]...]]...]}
 *     -> {"offsets": [offset of each record...]}
 * {"do": "consume", "config": {...}, "topic": t}
 *     -> {"records": [[partition, offset, timestamp, timestamp type, key, value, headers]...]}
 * </pre>
 *
 * With "end" in the configuration, "commit" or "abort", records are produced in a transaction that ends so.
 * Bytes are in base64, null is null; a record for partition -1 goes where the producer's partitioner says. A command
 * that fails is answered with {"error": text}. Every answer repeats the "number" of its command, so that the answer to
 * one that nobody waits for any more is not taken for the next one's.
 */
public final class Interop {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration PATIENCE = Duration.ofSeconds(60);

    private Interop() {}

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            JsonNode command = JSON.readTree(line);
            ObjectNode answer;
            try {
                answer = run(command);
            } catch (Exception error) {
                answer = JSON.createObjectNode().put("error", error.toString());
            }
            answer.set("number", command.get("number"));
            answers.println(JSON.writeValueAsString(answer));
        }
    }

    private static ObjectNode run(JsonNode command) throws Exception {
        Map<String, Object> config = new HashMap<>();
        command.get("config").properties().forEach(entry -> config.put(entry.getKey(), entry.getValue().asText()));
        String topic = command.get("topic").asText();
        switch (command.get("do").asText()) {
            case "produce":
                return produce(config, topic, command.get("records"));
            case "consume":
                return consume(config, topic);
            default:
                throw new IllegalArgumentException("unknown command " + command.get("do"));
        }
    }

    private static ObjectNode produce(Map<String, Object> config, String topic, JsonNode records) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        Object end = config.remove("end");
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
            if (end != null) {
                producer.initTransactions();
                producer.beginTransaction();
            }
            for (JsonNode record : records) {
                List<Header> headers = new ArrayList<>();
                for (JsonNode header : record.get(4)) {
                    headers.add(new RecordHeader(header.get(0).asText(), bytes(header.get(1))));
                }
                sent.add(
                        producer.send(
                                new ProducerRecord<>(
                                        topic,
                                        record.get(0).asInt() < 0 ? null : record.get(0).asInt(),
                                        record.get(1).isNull() ? null : record.get(1).asLong(),
                                        bytes(record.get(2)),
                                        bytes(record.get(3)),
                                        headers)));
            }
            if (end != null) {
                producer.flush();
                if (end.equals("commit")) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                }
            }
        }
        ObjectNode answer = JSON.createObjectNode();
        ArrayNode offsets = answer.putArray("offsets");
        for (Future<RecordMetadata> metadata : sent) {
            offsets.add(metadata.get().offset());
        }
        return answer;
    }

    private static ObjectNode consume(Map<String, Object> config, String topic) {
        ObjectNode answer = JSON.createObjectNode();
        ArrayNode records = answer.putArray("records");
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            List<TopicPartition> partitions = new ArrayList<>();
            consumer.partitionsFor(topic, PATIENCE)
                    .forEach(info -> partitions.add(new TopicPartition(topic, info.partition())));
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions, PATIENCE);
            long deadline = System.nanoTime() + PATIENCE.toNanos();
            while (ends.entrySet().stream().anyMatch(end -> consumer.position(end.getKey(), PATIENCE) < end.getValue())) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("the end of " + topic + " was not reached in " + PATIENCE);
                }
                consumer.poll(Duration.ofMillis(200)).forEach(record -> records.add(describe(record)));
            }
        }
        return answer;
    }

    private static ArrayNode describe(ConsumerRecord<byte[], byte[]> record) {
        ArrayNode described = JSON.createArrayNode();
        described.add(record.partition()).add(record.offset()).add(record.timestamp());
        described.add(record.timestampType().id).add(record.key()).add(record.value());
        ArrayNode headers = described.addArray();
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(header.value());
        }
        return described;
    }

    private static byte[] bytes(JsonNode node) {
        return node.isNull() ? null : Base64.getDecoder().decode(node.asText());
    }
}
