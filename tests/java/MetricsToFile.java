import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricsReporter;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.telemetry.ClientTelemetry;
import org.apache.kafka.server.telemetry.ClientTelemetryPayload;
import org.apache.kafka.server.telemetry.ClientTelemetryReceiver;
import org.apache.kafka.shaded.com.google.protobuf.ByteString;
import org.apache.kafka.shaded.io.opentelemetry.proto.common.v1.KeyValue;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.Metric;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.MetricsData;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.NumberDataPoint;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.ResourceMetrics;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.ScopeMetrics;

/**
 * A broker's plug-in for client metrics that writes each number as a line of `metrics.to.file`, read by Kafka's own
 * protobuf classes. As a Java agent, its jar is on the class path of a broker that knows nothing of it.
 */
public class MetricsToFile implements MetricsReporter, ClientTelemetry, ClientTelemetryReceiver {
    private Path file;

    public static void premain(String arguments) {}

    @Override
    public void configure(Map<String, ?> configs) {
        file = Path.of((String) configs.get("metrics.to.file"));
    }

    @Override
    public ClientTelemetryReceiver clientReceiver() {
        return this;
    }

    @Override
    public synchronized void exportMetrics(AuthorizableRequestContext context, ClientTelemetryPayload payload) {
        try {
            String head = context.clientId() + "\t" + payload.clientInstanceId() + "\t" + payload.isTerminating();
            StringBuilder lines = new StringBuilder();
            MetricsData data = MetricsData.parseFrom(ByteString.copyFrom(payload.data()));
            for (ResourceMetrics resource : data.getResourceMetricsList()) {
                String client = text(resource.getResource().getAttributesList());
                for (ScopeMetrics scope : resource.getScopeMetricsList()) {
                    for (Metric metric : scope.getMetricsList()) {
                        lines.append(lines(head + "\t" + client, metric));
                    }
                }
            }
            Files.writeString(file, lines, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        } catch (IOException error) {
            throw new RuntimeException(error);
        }
    }

    private static String lines(String head, Metric metric) {
        String kind = metric.hasGauge() ? "GAUGE" : metric.getSum().getAggregationTemporality().name();
        StringBuilder lines = new StringBuilder();
        for (NumberDataPoint point : metric.hasGauge() ? metric.getGauge().getDataPointsList()
                : metric.getSum().getDataPointsList()) {
            Object value = point.hasAsInt() ? (Object) point.getAsInt() : (Object) point.getAsDouble();
            lines.append(String.join("\t", head, metric.getName(), kind, value.toString(),
                    text(point.getAttributesList()), Long.toUnsignedString(point.getStartTimeUnixNano()),
                    Long.toUnsignedString(point.getTimeUnixNano()))).append("\n");
        }
        return lines.toString();
    }

    private static String text(List<KeyValue> attributes) {
        TreeMap<String, String> found = new TreeMap<>();
        attributes.forEach(each -> found.put(each.getKey(), each.getValue().getStringValue()));
        return found.toString();
    }

    @Override
    public void init(List<KafkaMetric> metrics) {}

    @Override
    public void metricChange(KafkaMetric metric) {}

    @Override
    public void metricRemoval(KafkaMetric metric) {}

    @Override
    public void close() {}
}
