import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;

/**
 * Kafka's own message classes, asked line by line on standard input:
 *
 *   read NAME VERSION HEX    the bytes, read and written again, then the message as JSON
 *   make NAME VERSION JSON   the bytes of a message given as JSON
 *   errors                   every error code: number, name, whether it is retriable
 *
 * The answer is one line, beginning with "ok" or "error".
 */
public class MessageOracle {
    private static final String PACKAGE = "org.apache.kafka.common.message.";
    private static final ObjectMapper MAPPER = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String answer;
            try {
                answer = "ok " + answer(line.split(" ", 4));
            } catch (InvocationTargetException wrapped) {
                answer = "error " + wrapped.getCause();
            } catch (Exception | Error error) {
                answer = "error " + error;
            }
            out.println(answer.replace('\n', ' '));
            out.flush();
        }
    }

    private static String answer(String[] words) throws Exception {
        if (words[0].equals("errors")) {
            StringBuilder all = new StringBuilder();
            for (Errors error : Errors.values())
                all.append(error.code()).append(',').append(error.name()).append(',')
                    .append(error.exception() instanceof RetriableException).append(' ');
            return all.toString();
        }
        short version = Short.parseShort(words[2]);
        Class<?> type = Class.forName(PACKAGE + words[1] + "Data");
        Class<?> converter = Class.forName(PACKAGE + words[1] + "DataJsonConverter");
        if (words[0].equals("read")) {
            Message message = (Message) type.getConstructor().newInstance();
            ByteBuffer data = ByteBuffer.wrap(HexFormat.of().parseHex(words.length > 3 ? words[3] : ""));
            message.read(new ByteBufferAccessor(data), version);
            if (data.hasRemaining())
                throw new IllegalStateException(data.remaining() + " bytes left over");
            JsonNode json = (JsonNode) converter.getMethod("write", type, short.class).invoke(null, message, version);
            return hex(message, version) + " " + MAPPER.writeValueAsString(json);
        }
        JsonNode json = MAPPER.readTree(words[3]);
        return hex((Message) converter.getMethod("read", JsonNode.class, short.class).invoke(null, json, version), version);
    }

    private static String hex(Message message, short version) {
        ByteBuffer data = MessageUtil.toByteBufferAccessor(message, version).buffer();
        byte[] bytes = new byte[data.remaining()];
        data.get(bytes);
        return "x" + HexFormat.of().formatHex(bytes);
    }
}
