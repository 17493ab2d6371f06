import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.ByteBuffer;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.internals.ByteBufferOutputStream;

/** Questions to the classes of record batches. Batches are described by JSON, the same both ways. */
class Batches {
    /** The bytes of the batch that the JSON describes. */
    static byte[][] build(byte[] text) throws IOException {
        JsonNode batch = Oracle.MAPPER.readTree(text);
        ByteBufferOutputStream out = new ByteBufferOutputStream(1024);
        long logAppendTime = batch.get("logAppendTime").longValue();
        try (MemoryRecordsBuilder builder = new MemoryRecordsBuilder(
                out, (byte) batch.get("magic").intValue(),
                Compression.of(CompressionType.forName(batch.get("compression").textValue())).build(),
                logAppendTime < 0 ? TimestampType.CREATE_TIME : TimestampType.LOG_APPEND_TIME,
                batch.get("baseOffset").longValue(), logAppendTime, batch.get("producerId").longValue(),
                batch.get("producerEpoch").shortValue(), batch.get("baseSequence").intValue(),
                batch.get("transactional").booleanValue(), batch.get("control").booleanValue(),
                batch.get("leaderEpoch").intValue(), Integer.MAX_VALUE)) {
            for (JsonNode record : batch.get("records")) {
                long timestamp = record.get("timestamp").longValue();
                if (record.has("marker")) {
                    builder.appendEndTxnMarker(timestamp, new EndTransactionMarker(
                        ControlRecordType.valueOf(record.get("marker").textValue()),
                        record.get("coordinatorEpoch").intValue()));
                } else {
                    builder.appendWithOffset(record.get("offset").longValue(), timestamp,
                        record.get("key").binaryValue(), record.get("value").binaryValue(),
                        headers(record.get("headers")));
                }
            }
        }
        return new byte[][] {Oracle.bytes(out.buffer().flip())};
    }

    private static Header[] headers(JsonNode json) throws IOException {
        Header[] headers = new Header[json.size()];
        for (int i = 0; i < headers.length; i++)
            headers[i] = new RecordHeader(json.get(i).get(0).textValue(), json.get(i).get(1).binaryValue());
        return headers;
    }

    /** Every batch in the bytes as JSON, all checksums verified, and how many bytes at the end are no whole batch. */
    static byte[][] parse(byte[] bytes) throws IOException {
        MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(bytes));
        ArrayNode batches = Oracle.MAPPER.createArrayNode();
        int used = 0;
        for (MutableRecordBatch batch : records.batches()) {
            batch.ensureValid();
            used += batch.sizeInBytes();
            batches.add(described(batch));
        }
        ObjectNode answer = Oracle.MAPPER.createObjectNode().put("rest", bytes.length - used);
        answer.set("batches", batches);
        return new byte[][] {Oracle.MAPPER.writeValueAsBytes(answer)};
    }

    private static ObjectNode described(RecordBatch batch) {
        ObjectNode json = Oracle.MAPPER.createObjectNode()
            .put("magic", batch.magic())
            .put("compression", batch.compressionType().name)
            .put("crc", batch.checksum())
            .put("logAppendTime", batch.timestampType() == TimestampType.LOG_APPEND_TIME)
            .put("baseOffset", batch.baseOffset())
            .put("lastOffset", batch.lastOffset())
            .put("maxTimestamp", batch.maxTimestamp())
            .put("producerId", batch.producerId())
            .put("producerEpoch", batch.producerEpoch())
            .put("baseSequence", batch.baseSequence())
            .put("transactional", batch.isTransactional())
            .put("control", batch.isControlBatch())
            .put("leaderEpoch", batch.partitionLeaderEpoch());
        ArrayNode records = json.putArray("records");
        for (Record record : batch) {
            record.ensureValid();
            ObjectNode one = records.addObject()
                .put("offset", record.offset())
                .put("timestamp", record.timestamp())
                .put("key", record.hasKey() ? Oracle.bytes(record.key()) : null)
                .put("value", record.hasValue() ? Oracle.bytes(record.value()) : null);
            if (batch.isControlBatch())
                one.put("type", record.keySize() == 4 && record.key().getShort(0) == 0
                    ? ControlRecordType.parse(record.key()).name() : null);
            ArrayNode headers = one.putArray("headers");
            for (Header header : record.headers())
                headers.addArray().add(header.key()).add(header.value());
        }
        return json;
    }
}
