/* The offsets of a partition's fields in a Fetch response of one version, for the fields that the fast path reads.
 *
 * _fetch.pyx makes it from the declaration of the message. A partition is `head` bytes of fields, the aborted
 * transactions, `middle` bytes, the records, `tail` bytes, and the tagged fields in flexible versions. */
#ifndef KAFWIRE_PARTITION_LAYOUT_H
#define KAFWIRE_PARTITION_LAYOUT_H

#include <stdint.h>

typedef struct kw_partition_layout {
    int32_t head, middle, tail;
    /* Offsets in the head, */
    int32_t partition, error_code, high_watermark, last_stable_offset;
    /* and in the middle. */
    int32_t preferred_read_replica; /* -1: the version lacks the field */
} kw_partition_layout;

#endif
