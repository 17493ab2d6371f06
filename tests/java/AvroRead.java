import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.HexFormat;
import java.util.Map;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericFixed;
import org.apache.avro.generic.IndexedRecord;
import org.apache.avro.io.BinaryDecoder;
import org.apache.avro.io.DecoderFactory;

/**
 * Reads values by Apache Avro. Each line of the input is a writer's schema, a reader's schema and bytes in hexadecimal
 * digits, with tabs between them; each line of the output is the value as JSON, without logical types, or an error.
 * Numbers of floating point, text, bytes, maps and records are objects whose only member says which they are.
 */
public class AvroRead {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        String line;
        while ((line = in.readLine()) != null) {
            String[] parts = line.split("\t", -1);
            StringBuilder text = new StringBuilder();
            try {
                Schema writer = new Schema.Parser().parse(parts[0]);
                Schema reader = new Schema.Parser().parse(parts[1]);
                BinaryDecoder decoder = DecoderFactory.get().binaryDecoder(HexFormat.of().parseHex(parts[2]), null);
                Object value = new GenericDatumReader<Object>(writer, reader).read(null, decoder);
                if (!decoder.isEnd()) throw new IllegalArgumentException("bytes are left");
                write(value, text);
            } catch (Exception error) {
                text.setLength(0);
                text.append("{\"error\":\"").append(error.getClass().getSimpleName()).append("\"}");
            }
            out.println(text);
        }
        out.flush();
    }

    private static void write(Object value, StringBuilder out) {
        if (value == null || value instanceof Boolean || value instanceof Integer || value instanceof Long) {
            out.append(value);
        } else if (value instanceof Float || value instanceof Double) {
            out.append("{\"real\":\"").append(((Number) value).doubleValue()).append("\"}");
        } else if (value instanceof ByteBuffer buffer) {
            byte[] bytes = new byte[buffer.remaining()];
            buffer.duplicate().get(bytes);
            bytes(bytes, "bytes", out);
        } else if (value instanceof GenericFixed fixed) {
            bytes(fixed.bytes(), "bytes", out);
        } else if (value instanceof Collection<?> items) {
            String before = "[";
            for (Object item : items) {
                out.append(before);
                write(item, out);
                before = ",";
            }
            out.append(items.isEmpty() ? "[]" : "]");
        } else if (value instanceof Map<?, ?> map) {
            String before = "{\"map\":[";
            for (Map.Entry<?, ?> entry : map.entrySet()) {
                out.append(before).append("[");
                write(entry.getKey(), out);
                out.append(",");
                write(entry.getValue(), out);
                out.append("]");
                before = ",";
            }
            out.append(map.isEmpty() ? "{\"map\":[]}" : "]}");
        } else if (value instanceof IndexedRecord record) {
            out.append("{\"record\":{");
            for (Schema.Field field : record.getSchema().getFields()) {
                if (field.pos() > 0) out.append(",");
                out.append("\"").append(field.name()).append("\":");
                write(record.get(field.pos()), out);
            }
            out.append("}}");
        } else {
            bytes(value.toString().getBytes(StandardCharsets.UTF_8), "text", out);
        }
    }

    private static void bytes(byte[] bytes, String kind, StringBuilder out) {
        out.append("{\"").append(kind).append("\":\"").append(HexFormat.of().formatHex(bytes)).append("\"}");
    }
}
