import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.RoundRobinPartitioner;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.clients.producer.internals.Draws;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;

/** Where Kafka's own partitioners put records. Lists of numbers are 32 bits each, big-endian. */
class Partitions {
    private static final String TOPIC = "t";

    /** Keys, each behind its length, to their partitions. */
    static byte[][] place(int count, byte[] keys) {
        ByteBuffer in = ByteBuffer.wrap(keys);
        List<Integer> placed = new ArrayList<>();
        while (in.hasRemaining()) {
            byte[] key = new byte[in.getInt()];
            in.get(key);
            placed.add(BuiltInPartitioner.partitionForKey(key, count));
        }
        return answer(placed.stream().mapToInt(Integer::intValue).toArray());
    }

    /** Where so many records go in turn, the partitions having these leaders. */
    static byte[][] turns(int[] leaders, int records) {
        Cluster cluster = cluster(leaders);
        int[] placed = new int[records];
        try (RoundRobinPartitioner partitioner = new RoundRobinPartitioner()) {
            partitioner.configure(Map.of());
            for (int i = 0; i < records; i++)
                placed[i] = partitioner.partition(TOPIC, null, null, null, null, cluster);
        }
        return answer(placed);
    }

    /**
     * What random numbers draw. Queues are of the partitions that have a leader, in order; those of partitions that are
     * slow are left out of `ids`, with `sizes` still as long as if they were not. No sizes: nothing is adapted.
     */
    static byte[][] draw(int[] leaders, int[] ids, int[] sizes, int[] randoms) {
        Draws partitioner = new Draws(TOPIC, randoms);
        if (sizes.length > 0) {
            int[] padded = new int[sizes.length];
            System.arraycopy(ids, 0, padded, 0, ids.length);
            String[] racks = new String[sizes.length];
            Arrays.fill(racks, "");
            partitioner.updatePartitionLoadStats(sizes, padded, racks, ids.length);
        }
        return answer(partitioner.drawn(cluster(leaders)));
    }

    private static Cluster cluster(int[] leaders) {
        List<PartitionInfo> partitions = new ArrayList<>();
        List<Node> nodes = new ArrayList<>();
        for (int i = 0; i < leaders.length; i++) {
            Node leader = leaders[i] < 0 ? null : new Node(leaders[i], "host", 9092);
            if (leader != null && !nodes.contains(leader))
                nodes.add(leader);
            partitions.add(new PartitionInfo(TOPIC, i, leader, new Node[0], new Node[0]));
        }
        return new Cluster("cluster", nodes, partitions, Collections.emptySet(), Collections.emptySet());
    }

    static int[] numbers(byte[] data) {
        int[] numbers = new int[data.length / 4];
        ByteBuffer.wrap(data).asIntBuffer().get(numbers);
        return numbers;
    }

    private static byte[][] answer(int[] numbers) {
        ByteBuffer out = ByteBuffer.allocate(4 * numbers.length);
        out.asIntBuffer().put(numbers);
        return new byte[][] {out.array()};
    }
}
