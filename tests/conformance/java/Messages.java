import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.lang.reflect.Field;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.record.internal.BaseRecords;
import org.apache.kafka.common.record.internal.MemoryRecords;

/** Questions to the message classes, by way of their own reading and writing and of their JSON converters. */
class Messages {
    private static final List<String> PACKAGES = List.of(
        "org.apache.kafka.common.message.",
        "org.apache.kafka.coordinator.group.generated.",
        "org.apache.kafka.coordinator.share.generated.",
        "org.apache.kafka.coordinator.transaction.generated.",
        "org.apache.kafka.server.log.remote.metadata.storage.generated.");

    private static Class<?> type(String name) throws ClassNotFoundException {
        boolean suffix = name.endsWith("Request") || name.endsWith("Response") || name.endsWith("Header");
        for (String each : PACKAGES) {
            try {
                return Class.forName(each + name + (suffix ? "Data" : ""));
            } catch (ClassNotFoundException elsewhere) {
                continue;
            }
        }
        throw new ClassNotFoundException(name);
    }

    private static Class<?> converter(String name) throws ClassNotFoundException {
        return Class.forName(type(name).getName() + "JsonConverter");
    }

    /** The bytes, read and written again; the message as JSON; and the bytes of its records, in the order of its fields. */
    static byte[][] read(String name, short version, byte[] bytes) throws Exception {
        Class<?> type = type(name);
        Message message = (Message) type.getConstructor().newInstance();
        ByteBuffer data = ByteBuffer.wrap(bytes);
        message.read(new ByteBufferAccessor(data), version);
        if (data.hasRemaining())
            throw new IllegalStateException(data.remaining() + " bytes left over");
        Object json = converter(name).getMethod("write", type, short.class).invoke(null, message, version);
        List<byte[]> answer = new ArrayList<>();
        answer.add(written(message, version));
        answer.add(Oracle.MAPPER.writeValueAsBytes(json));
        collectRecords(message, answer);
        return answer.toArray(byte[][]::new);
    }

    /** The bytes of a message given as JSON. */
    static byte[][] make(String name, short version, byte[] text) throws Exception {
        JsonNode json = Oracle.MAPPER.readTree(text);
        Object message = converter(name).getMethod("read", JsonNode.class, short.class).invoke(null, json, version);
        return new byte[][] {written((Message) message, version)};
    }

    /** The bytes of a message of which only some fields are set, to values that the version need not allow. */
    static byte[][] fill(String name, short version, byte[] text) throws Exception {
        return new byte[][] {written((Message) value(type(name), Oracle.MAPPER.readTree(text)), version)};
    }

    /** Every error code: number, name, whether it is retriable. */
    static byte[][] errors() {
        List<byte[]> answer = new ArrayList<>();
        for (Errors error : Errors.values())
            answer.add(Oracle.text(
                error.code() + " " + error.name() + " " + (error.exception() instanceof RetriableException)));
        return answer.toArray(byte[][]::new);
    }

    /** Every version of every API that has any: key, version, the versions of the request's and of the response's header. */
    static byte[][] apis() {
        List<byte[]> answer = new ArrayList<>();
        for (ApiKeys api : ApiKeys.values()) {
            for (short version = api.oldestVersion(); version <= api.latestVersion(true); version++)
                answer.add(Oracle.text(api.id + " " + version + " " + api.requestHeaderVersion(version) + " "
                    + api.responseHeaderVersion(version) + " " + (version > api.latestVersion(false))));
        }
        return answer.toArray(byte[][]::new);
    }

    private static byte[] written(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        return Oracle.bytes(buffer.flip());
    }

    /** Classes of records go by their simple names: Kafka 3.9 has them in another package. */
    private static void collectRecords(Object value, List<byte[]> found) throws ReflectiveOperationException {
        if (value instanceof Collection<?> elements) {
            for (Object element : elements)
                collectRecords(element, found);
        } else if (value != null && value.getClass().getSimpleName().equals("MemoryRecords")) {
            found.add(Oracle.bytes((ByteBuffer) value.getClass().getMethod("buffer").invoke(value)));
        } else if (value instanceof Message) {
            for (Field field : value.getClass().getDeclaredFields()) {
                if (Message.class.isAssignableFrom(field.getType()) || Collection.class.isAssignableFrom(field.getType())
                        || field.getType().getSimpleName().equals("BaseRecords")) {
                    field.setAccessible(true);
                    collectRecords(field.get(value), found);
                }
            }
        }
    }

    private static Object value(Type type, JsonNode json) throws Exception {
        if (json.isNull())
            return null;
        Class<?> raw = (Class<?>) (type instanceof ParameterizedType generic ? generic.getRawType() : type);
        if (Message.class.isAssignableFrom(raw)) {
            Object message = raw.getConstructor().newInstance();
            for (Map.Entry<String, JsonNode> entry : json.properties()) {
                Field field = raw.getDeclaredField(entry.getKey());
                field.setAccessible(true);
                field.set(message, value(field.getGenericType(), entry.getValue()));
            }
            return message;
        }
        if (Collection.class.isAssignableFrom(raw)) {
            // A list, or a class of the message's own that extends a set of its elements.
            Type generic = raw == List.class ? type : raw.getGenericSuperclass();
            Type element = ((ParameterizedType) generic).getActualTypeArguments()[0];
            @SuppressWarnings("unchecked")
            Collection<Object> values =
                raw == List.class ? new ArrayList<>() : (Collection<Object>) raw.getConstructor().newInstance();
            for (JsonNode one : json)
                values.add(value(element, one));
            return values;
        }
        return plain(raw, json);
    }

    private static Object plain(Class<?> type, JsonNode json) throws IOException {
        if (type == boolean.class || type == Boolean.class)
            return json.booleanValue();
        if (type == byte.class || type == Byte.class)
            return (byte) json.intValue();
        if (type == short.class || type == Short.class)
            return json.shortValue();
        if (type == int.class || type == Integer.class)
            return json.intValue();
        if (type == long.class || type == Long.class)
            return json.longValue();
        if (type == double.class || type == Double.class)
            return json.doubleValue();
        if (type == String.class)
            return json.textValue();
        if (type == Uuid.class)
            return Uuid.fromString(json.textValue());
        if (type == byte[].class)
            return json.binaryValue();
        if (type == ByteBuffer.class)
            return ByteBuffer.wrap(json.binaryValue());
        if (BaseRecords.class.isAssignableFrom(type))
            return MemoryRecords.readableRecords(ByteBuffer.wrap(json.binaryValue()));
        throw new IllegalArgumentException("a field of type " + type);
    }
}
