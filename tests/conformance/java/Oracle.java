import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

/**
 * Kafka's own classes, asked on standard input and answering on standard output. oracle.py is the other end.
 *
 * A round is a number of questions, all read before the first is answered, so that neither end can block the other.
 * A question is a list of words, the first of them what is asked; an answer is a byte, 1 for an answer and 0 for an
 * error, and a list of words. Numbers of things and lengths of words are 32 bits, big-endian.
 */
public class Oracle {
    static final ObjectMapper MAPPER = new ObjectMapper();

    public static void main(String[] arguments) throws IOException {
        DataInputStream in = new DataInputStream(new BufferedInputStream(System.in, 1 << 16));
        PrintStream answers = System.out;
        System.setOut(System.err);
        DataOutputStream out = new DataOutputStream(new BufferedOutputStream(answers, 1 << 16));
        while (true) {
            int first = in.read();
            if (first < 0)
                return;
            byte[] rest = in.readNBytes(3);
            byte[][][] questions = new byte[ByteBuffer.allocate(4).put((byte) first).put(rest).getInt(0)][][];
            for (int i = 0; i < questions.length; i++)
                questions[i] = readWords(in);
            for (byte[][] question : questions) {
                byte[][] answer;
                boolean good = true;
                try {
                    answer = answer(question);
                } catch (InvocationTargetException wrapped) {
                    good = false;
                    answer = new byte[][] {text(String.valueOf(wrapped.getCause()))};
                } catch (Exception | Error error) {
                    good = false;
                    answer = new byte[][] {text(String.valueOf(error))};
                }
                out.writeByte(good ? 1 : 0);
                out.writeInt(answer.length);
                for (byte[] word : answer) {
                    out.writeInt(word.length);
                    out.write(word);
                }
            }
            out.flush();
        }
    }

    private static byte[][] answer(byte[][] words) throws Exception {
        switch (text(words[0])) {
            case "read":
                return Messages.read(text(words[1]), Short.parseShort(text(words[2])), words[3]);
            case "make":
                return Messages.make(text(words[1]), Short.parseShort(text(words[2])), words[3]);
            case "fill":
                return Messages.fill(text(words[1]), Short.parseShort(text(words[2])), words[3]);
            case "errors":
                return Messages.errors();
            case "apis":
                return Messages.apis();
            case "build":
                return Batches.build(words[1]);
            case "parse":
                return Batches.parse(words[1]);
            case "place":
                return Partitions.place(Integer.parseInt(text(words[1])), words[2]);
            case "turns":
                return Partitions.turns(Partitions.numbers(words[1]), Integer.parseInt(text(words[2])));
            case "draw":
                return Partitions.draw(
                        Partitions.numbers(words[1]),
                        Partitions.numbers(words[2]),
                        Partitions.numbers(words[3]),
                        Partitions.numbers(words[4]));
            case "assign":
                return Assignors.assign(words);
            case "share":
                return ShareAssignor.assign(MAPPER.readTree(words[1]));
            case "subscribe":
                return Assignors.subscribe(text(words[1]), MAPPER.readTree(words[2]));
            case "sasl open":
                return Sasl.open(
                        text(words[1]), text(words[2]), text(words[3]), text(words[4]), Integer.parseInt(text(words[5])));
            case "sasl open kerberos":
                return Sasl.openKerberos(
                        text(words[1]), text(words[2]), text(words[3]), text(words[4]), text(words[5]), text(words[6]));
            case "jaas":
                return Sasl.jaas(text(words[1]));
            case "sasl step":
                return Sasl.step(text(words[1]), words[2]);
            case "sasl negotiated":
                return Sasl.negotiated(text(words[1]), text(words[2]));
            case "sasl salted":
                return Sasl.salted(text(words[1]), text(words[2]), words[3], Integer.parseInt(text(words[4])));
            default:
                throw new IllegalArgumentException("no such question: " + text(words[0]));
        }
    }

    private static byte[][] readWords(DataInputStream in) throws IOException {
        byte[][] words = new byte[in.readInt()][];
        for (int i = 0; i < words.length; i++)
            words[i] = in.readNBytes(in.readInt());
        return words;
    }

    static byte[] text(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String text(byte[] data) {
        return new String(data, StandardCharsets.UTF_8);
    }

    static byte[] bytes(ByteBuffer buffer) {
        byte[] data = new byte[buffer.remaining()];
        buffer.duplicate().get(data);
        return data;
    }
}
