import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Reads a topic as the one member of a share group, once for each line of standard input.
 *
 * <pre>
 * bootstrap topic group mode seconds -> records seconds
 * </pre>
 *
 * Time begins with the first records, which are not counted. In the mode "explicit" each record is acknowledged.
 */
public final class ShareReader {
    private ShareReader() {}

    public static void main(String[] arguments) throws Exception {
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.split(" ");
            System.out.println(read(words[0], words[1], words[2], words[3], Double.parseDouble(words[4])));
        }
        System.exit(0);
    }

    private static String read(String bootstrap, String topic, String group, String mode, double seconds) {
        Map<String, Object> config =
            Map.of("bootstrap.servers", bootstrap, "group.id", group, "share.acknowledgement.mode", mode);
        boolean isExplicit = mode.equals("explicit");
        try (KafkaShareConsumer<byte[], byte[]> consumer =
            new KafkaShareConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(topic));
            long began = 0, ended = 0, bytes = 0, records = 0;
            while (began == 0 || (ended - began < seconds * 1e9)) {
                ConsumerRecords<byte[], byte[]> polled = consumer.poll(Duration.ofSeconds(2));
                for (ConsumerRecord<byte[], byte[]> record : polled) {
                    bytes += record.value().length;
                    if (isExplicit) {
                        consumer.acknowledge(record);
                    }
                }
                if (polled.isEmpty() && began > 0) {
                    break;
                }
                if (!polled.isEmpty()) {
                    ended = System.nanoTime();
                    if (began == 0) {
                        began = ended;
                    } else {
                        records += polled.count();
                    }
                }
            }
            if (bytes < records) {
                throw new IllegalStateException("values are missing");
            }
            return records + " " + (ended - began) / 1e9;
        }
    }
}
