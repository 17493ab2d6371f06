/* One blocking socket to one broker: Fetch v11 and Produce v7, the last versions before flexible encodings, which every
 * broker from 2.3 to 4.x supports. */
#ifndef KAFWIRE_BENCH_WIRE_H
#define KAFWIRE_BENCH_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "tls.h"

typedef struct {
    int fd;
    tls_context *secure; /* NULL: no TLS */
    tls *tls;            /* of the open connection */
    int32_t next_correlation, due_correlation;
    uint8_t *frame; /* the last response */
    size_t frame_capacity, frame_size;
    uint8_t *request; /* the last Fetch */
    size_t request_capacity;
} wire;

/* A partition and the offset to read it from; then the record batches that came, which are in wire.frame. */
typedef struct {
    int32_t partition;
    int64_t offset;
    const uint8_t *data;
    size_t size;
} wire_part;

void wire_open(wire *self, const char *bootstrap); /* "host:port"; with TLS if `secure` is set */
void wire_close(wire *self);                       /* keeps the buffers for the next wire_open */

/* With `min_bytes` 0 the broker responds at once. */
void wire_send_fetch(wire *self, const char *topic, const wire_part *parts, int count, int32_t min_bytes,
                     int32_t max_bytes);
/* The response to the oldest open Fetch, which asked for exactly these partitions. */
void wire_take_fetch(wire *self, wire_part *parts, int count);

void wire_send_produce(wire *self, const char *topic, int32_t partition, const uint8_t *batch, size_t size);
int64_t wire_take_produce(wire *self); /* the base offset */

#endif
