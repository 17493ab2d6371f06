/* The floor: what one core and one blocking socket can do with Kafka's bytes, without a client around them.
 *
 *   floor fill    bootstrap= topic= payload= value_bytes= records= batch_bytes= codec= [key_bytes=] [partitions=]
 *   floor ready   bootstrap= topic= [partitions=]         fails unless every partition can be read
 *   floor inspect bootstrap= topic= records= [partitions=] [dump= dump_bytes=]   sizes of the stored batches, as JSON
 *   floor consume bootstrap= topic= records= max_bytes= decode=1|0 seconds= [partitions=]
 *   floor produce bootstrap= topic= payload= value_bytes= records= batch_bytes= codec= in_flight= seconds=
 *   floor wait    bootstrap= topic= payload= value_bytes= warmup= records= seconds=   one record after the other, acknowledged
 *   floor decode  file= seconds=                                     batches in memory to columns, again and again
 *
 * `ca=path` speaks TLS and verifies the server. Without `partitions` one, number 0; with it the records are shared out evenly. Offsets begin at 0. codec=none|lz4; lz4=path of an lz4 library, else the system's. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "batch.h"
#include "bench.h"
#include "wire.h"

#define CHUNK_BYTES (4 << 20) /* columns are handed over, here dropped, when they hold this much */

static int argc_;
static char **argv_;

static const char *text(const char *name) { return bench_need(argc_, argv_, name); }
static int64_t number(const char *name, int64_t fallback) { return bench_number(argc_, argv_, name, fallback); }
static double seconds(void) { return atof(bench_arg(argc_, argv_, "seconds", "0")); }

static const lz4f_api *open_lz4(void) { return lz4f_open(bench_arg(argc_, argv_, "lz4", "")); }

static const lz4f_api *chosen_codec(void) { return strcmp(text("codec"), "lz4") ? NULL : open_lz4(); }

/* The trusted certificates, for TLS; NULL: none. */
static tls_context *trusted(void) {
    static tls_context *context;
    const char *ca = bench_arg(argc_, argv_, "ca", "");
    if (*ca && !context) context = tls_client(ca);
    return context;
}

static int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void fill(void) {
    const char *topic = text("topic");
    const lz4f_api *lz4 = chosen_codec();
    int64_t records = number("records", 0), sent = 0;
    size_t limit = (size_t)number("batch_bytes", 1000000);
    int in_flight = 0, partitions = (int)number("partitions", 1), partition = 0;
    bench_payload payload;
    wire broker = {.secure = trusted()};
    bench_load(&payload, text("payload"), (size_t)number("value_bytes", 100));
    payload.key_bytes = (size_t)number("key_bytes", 0);
    if (payload.key_bytes && BENCH_KEY_AT + payload.key_bytes > payload.value_bytes) bench_fail("no room for keys");
    wire_open(&broker, text("bootstrap"));
    while (sent < records || in_flight) {
        if (sent < records && in_flight < 5) {
            while (bench_share(records, partition + 1, partitions) <= sent) partition++;
            int64_t left = bench_share(records, partition + 1, partitions) - sent;
            made_batch batch = batch_make(&payload, sent, left, limit, lz4, now_ms());
            wire_send_produce(&broker, topic, partition, batch.data, batch.size);
            free(batch.data);
            sent += batch.records;
            in_flight++;
        } else {
            wire_take_produce(&broker);
            in_flight--;
        }
    }
    wire_close(&broker);
    printf("{\"records\": %" PRId64 "}\n", sent);
}

/* A new topic's partitions have leaders a moment later than the topic is there. */
static void ready(void) {
    int partitions = (int)number("partitions", 1);
    wire_part *parts = bench_alloc((size_t)partitions * sizeof *parts);
    wire broker = {.secure = trusted()};
    for (int i = 0; i < partitions; i++) parts[i].partition = i;
    wire_open(&broker, text("bootstrap"));
    wire_send_fetch(&broker, text("topic"), parts, partitions, 0, 1);
    wire_take_fetch(&broker, parts, partitions);
    wire_close(&broker);
    puts("{}");
}

static int ascending(const void *a, const void *b) {
    size_t left = *(const size_t *)a, right = *(const size_t *)b;
    return left < right ? -1 : left > right;
}

static void inspect(void) {
    const char *topic = text("topic"), *dump = bench_arg(argc_, argv_, "dump", NULL);
    int64_t records = number("records", 0), seen = 0, codecs[8] = {0};
    int partitions = (int)number("partitions", 1);
    size_t count = 0, capacity = 1024, total = 0, dump_limit = (size_t)number("dump_bytes", 8 << 20), dumped = 0;
    size_t *sizes = bench_alloc(capacity * sizeof *sizes);
    FILE *file = dump ? fopen(dump, "wb") : NULL;
    wire broker = {.secure = trusted()};
    if (dump && !file) bench_fail("cannot write %s", dump);
    wire_open(&broker, text("bootstrap"));
    wire_part part = {0};
    while (part.partition < partitions) {
        batch_info info;
        int64_t share = bench_share(records, part.partition + 1, partitions) -
                        bench_share(records, part.partition, partitions);
        if (part.offset >= share) {
            part.partition++;
            part.offset = 0;
            continue;
        }
        wire_send_fetch(&broker, topic, &part, 1, 1, 8 << 20);
        wire_take_fetch(&broker, &part, 1);
        const uint8_t *at = part.data, *end = at + part.size;
        if (at == end)
            bench_fail("nothing in partition %d at offset %" PRId64 " of %" PRId64, part.partition, part.offset, share);
        while (batch_peek(at, (size_t)(end - at), &info)) {
            if (count == capacity) {
                capacity *= 2;
                sizes = realloc(sizes, capacity * sizeof *sizes);
                if (!sizes) bench_fail("no memory");
            }
            sizes[count++] = info.size;
            total += info.size;
            seen += info.records;
            codecs[info.codec]++;
            part.offset = info.next_offset;
            if (file && dumped + info.size <= dump_limit) {
                fwrite(at, 1, info.size, file);
                dumped += info.size;
            }
            at += info.size;
        }
    }
    if (file) fclose(file);
    wire_close(&broker);
    qsort(sizes, count, sizeof *sizes, ascending);
    printf("{\"records\": %" PRId64 ", \"partitions\": %d, \"batches\": %zu, \"bytes\": %zu, "
           "\"batch_bytes\": {\"min\": %zu, \"median\": %zu, \"max\": %zu}, "
           "\"codecs\": {\"none\": %" PRId64 ", \"lz4\": %" PRId64 "}}\n",
           seen, partitions, count, total, count ? sizes[0] : 0, count ? sizes[count / 2] : 0, count ? sizes[count - 1] : 0,
           codecs[CODEC_NONE], codecs[CODEC_LZ4]);
}

/* Columns in hand: count them as every contender does. */
static void hand_over(decoder *self, bench_pass *pass) {
    columns *out = &self->out;
    if (!out->rows) return;
    pass->records += out->rows;
    pass->bytes += out->value_start[out->rows];
    for (int64_t row = 0; row < out->rows; row++)
        if (out->value_start[row + 1] > out->value_start[row]) pass->checksum += out->value[out->value_start[row + 1] - 1];
    decoder_clear(self);
}

/* Partitions that are read to their end leave; those that got data go to the back: the broker fills its responses in
 * this order. */
static int rotate(wire_part *parts, int count, wire_part *served, int64_t records, int partitions) {
    int kept = 0, moved = 0;
    for (int i = 0; i < count; i++) {
        int32_t number = parts[i].partition;
        int64_t share = bench_share(records, number + 1, partitions) - bench_share(records, number, partitions);
        if (parts[i].offset >= share) continue;
        if (parts[i].size) served[moved++] = parts[i];
        else parts[kept++] = parts[i];
    }
    memcpy(parts + kept, served, (size_t)moved * sizeof *parts);
    return kept + moved;
}

static void consume(void) {
    const char *topic = text("topic"), *bootstrap = text("bootstrap");
    int64_t records = number("records", 0);
    int32_t max_bytes = (int32_t)number("max_bytes", 8 << 20);
    int decode = (int)number("decode", 1), partitions = (int)number("partitions", 1);
    const lz4f_api *lz4 = number("needs_lz4", 0) ? open_lz4() : NULL;
    wire_part *asked = bench_alloc((size_t)partitions * sizeof *asked);
    wire_part *served = bench_alloc((size_t)partitions * sizeof *served);
    wire_part *fetched = bench_alloc((size_t)partitions * sizeof *fetched);
    wire broker = {.secure = trusted()};
    bench_run run;
    decoder into;
    decoder_init(&into, lz4);
    bench_wait_for_go(&run, seconds());
    while (bench_more(&run)) {
        bench_pass pass = {0};
        int count = partitions;
        int32_t decoding = -1;
        double start = bench_now();
        for (int i = 0; i < partitions; i++) asked[i] = (wire_part){.partition = i};
        wire_open(&broker, bootstrap);
        wire_send_fetch(&broker, topic, asked, count, 1, max_bytes);
        while (count) {
            batch_info info;
            int came = count;
            wire_take_fetch(&broker, asked, came);
            for (int i = 0; i < came; i++) {
                const uint8_t *at = asked[i].data, *end = at + asked[i].size;
                for (; batch_peek(at, (size_t)(end - at), &info); at += info.size) {
                    asked[i].offset = info.next_offset;
                    if (!decode) {
                        pass.records += info.records;
                        pass.bytes += (int64_t)info.size;
                    }
                }
            }
            memcpy(fetched, asked, (size_t)came * sizeof *fetched);
            count = rotate(asked, count, served, records, partitions);
            /* The broker prepares the next response while this one is decoded. */
            if (count) wire_send_fetch(&broker, topic, asked, count, 1, max_bytes);
            for (int i = 0; decode && i < came; i++) {
                const uint8_t *at = fetched[i].data, *end = at + fetched[i].size;
                if (at == end) continue;
                if (fetched[i].partition != decoding) hand_over(&into, &pass); /* columns are of one partition */
                decoding = fetched[i].partition;
                for (; batch_peek(at, (size_t)(end - at), &info); at += info.size) {
                    decoder_batch(&into, at, &info);
                    if (into.out.value_start[into.out.rows] >= CHUNK_BYTES) hand_over(&into, &pass);
                }
            }
        }
        hand_over(&into, &pass);
        pass.seconds = bench_now() - start;
        wire_close(&broker);
        bench_add(&run, pass);
    }
    bench_report(&run, lz4 ? lz4->path : "");
}

static void produce(void) {
    const char *topic = text("topic"), *bootstrap = text("bootstrap");
    const lz4f_api *lz4 = chosen_codec();
    int64_t records = number("records", 0), planned = 0;
    size_t limit = (size_t)number("batch_bytes", 1000000), count = 0, capacity = 16;
    int most = (int)number("in_flight", 5);
    bench_payload payload;
    wire broker = {.secure = trusted()};
    bench_run run;
    bench_load(&payload, text("payload"), (size_t)number("value_bytes", 100));
    made_batch *batches = bench_alloc(capacity * sizeof *batches);
    while (planned < records) {
        if (count == capacity) {
            capacity *= 2;
            batches = realloc(batches, capacity * sizeof *batches);
            if (!batches) bench_fail("no memory");
        }
        batches[count] = batch_make(&payload, planned, records - planned, limit, lz4, now_ms());
        planned += batches[count++].records;
    }
    bench_wait_for_go(&run, seconds());
    while (bench_more(&run)) {
        bench_pass pass = {0};
        size_t sent = 0, acknowledged = 0;
        double start = bench_now();
        wire_open(&broker, bootstrap);
        while (acknowledged < count) {
            if (sent < count && sent - acknowledged < (size_t)most) {
                wire_send_produce(&broker, topic, 0, batches[sent].data, batches[sent].size);
                sent++;
            } else {
                wire_take_produce(&broker);
                pass.records += batches[acknowledged++].records;
            }
        }
        pass.seconds = bench_now() - start;
        pass.bytes = pass.records * (int64_t)payload.value_bytes;
        wire_close(&broker);
        bench_add(&run, pass);
    }
    bench_report(&run, lz4 ? lz4->path : "");
}

/* The clock of a record runs while its batch is made, as it does for a client. */
static void wait_for_each(void) {
    const char *topic = text("topic");
    int64_t warmup = number("warmup", 0), records = warmup + number("records", 1);
    double *took = bench_alloc((size_t)records * sizeof *took);
    bench_payload payload;
    bench_run run;
    bench_load(&payload, text("payload"), (size_t)number("value_bytes", 100));
    bench_wait_for_go(&run, seconds());
    while (bench_more(&run)) {
        bench_pass pass = {0};
        wire broker = {.secure = trusted()};
        wire_open(&broker, text("bootstrap"));
        for (int64_t i = 0; i < records; i++) {
            double start = bench_now();
            made_batch batch = batch_make(&payload, i, 1, BATCH_HEADER + 64, NULL, now_ms());
            wire_send_produce(&broker, topic, 0, batch.data, batch.size);
            wire_take_produce(&broker);
            free(batch.data);
            took[i] = bench_now() - start;
            pass.seconds += took[i];
        }
        wire_close(&broker);
        pass.records = records;
        pass.bytes = records * (int64_t)payload.value_bytes;
        bench_percentiles(&pass, took + warmup, records - warmup);
        bench_add(&run, pass);
    }
    bench_report(&run, "");
}

static void decode(void) {
    bench_payload blob;
    bench_run run;
    decoder into;
    batch_info info;
    int compressed = 0;
    bench_load(&blob, text("file"), 1);
    size_t size = (size_t)blob.count;
    for (size_t at = 0; batch_peek(blob.data + at, size - at, &info); at += info.size) compressed |= info.codec;
    decoder_init(&into, compressed ? open_lz4() : NULL);
    bench_wait_for_go(&run, seconds());
    while (bench_more(&run)) {
        bench_pass pass = {0};
        double start = bench_now();
        for (int again = 0; again < 20; again++) {
            for (size_t at = 0; batch_peek(blob.data + at, size - at, &info); at += info.size) {
                decoder_batch(&into, blob.data + at, &info);
                if (into.out.value_start[into.out.rows] >= CHUNK_BYTES) hand_over(&into, &pass);
            }
            hand_over(&into, &pass);
        }
        pass.seconds = bench_now() - start;
        bench_add(&run, pass);
    }
    bench_report(&run, compressed ? into.lz4->path : "");
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    argc_ = argc;
    argv_ = argv;
    if (!strcmp(what, "fill")) fill();
    else if (!strcmp(what, "ready")) ready();
    else if (!strcmp(what, "inspect")) inspect();
    else if (!strcmp(what, "consume")) consume();
    else if (!strcmp(what, "produce")) produce();
    else if (!strcmp(what, "wait")) wait_for_each();
    else if (!strcmp(what, "decode")) decode();
    else bench_fail("usage: floor fill|ready|inspect|consume|produce|wait|decode name=value ...");
    return 0;
}
