package org.apache.kafka.clients.producer.internals;

import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.utils.internals.LogContext;

/** The built-in partitioner with random numbers that are given to it. In its package, as it lets nobody else do that. */
public class Draws extends BuiltInPartitioner {
    private final int[] randoms;
    private int used = 0;

    public Draws(String topic, int[] randoms) {
        super(new LogContext(), topic, 1, false, "");
        this.randoms = randoms;
    }

    @Override
    int randomPartition() {
        return randoms[used++];
    }

    /** The partition that each number leads to. */
    public int[] drawn(Cluster cluster) {
        int[] partitions = new int[randoms.length];
        for (int i = 0; i < partitions.length; i++) {
            StickyPartitionInfo current = peekCurrentPartitionInfo(cluster);
            partitions[i] = current.partition();
            if (i + 1 < partitions.length)
                updatePartitionInfo(current, 1, cluster);
        }
        return partitions;
    }
}
