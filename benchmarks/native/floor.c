/* The floor: what one core and one blocking socket can do with Kafka's bytes, without a client around them.
 *
 *   floor fill    bootstrap= topic= payload= value_bytes= records= batch_bytes= codec=
 *   floor inspect bootstrap= topic= records= [dump= dump_bytes=]     sizes of the stored batches, as JSON
 *   floor consume bootstrap= topic= records= max_bytes= decode=1|0 seconds=
 *   floor produce bootstrap= topic= payload= value_bytes= records= batch_bytes= codec= in_flight= seconds=
 *   floor decode  file= seconds=                                     batches in memory to columns, again and again
 *
 * One partition, number 0; offsets begin at 0. codec=none|lz4; lz4=path of an lz4 library, else the system's. */
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
    int in_flight = 0;
    bench_payload payload;
    wire broker = {0};
    bench_load(&payload, text("payload"), (size_t)number("value_bytes", 100));
    wire_open(&broker, text("bootstrap"));
    while (sent < records || in_flight) {
        if (sent < records && in_flight < 5) {
            made_batch batch = batch_make(&payload, sent, records - sent, limit, lz4, now_ms());
            wire_send_produce(&broker, topic, 0, batch.data, batch.size);
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

static int ascending(const void *a, const void *b) {
    size_t left = *(const size_t *)a, right = *(const size_t *)b;
    return left < right ? -1 : left > right;
}

static void inspect(void) {
    const char *topic = text("topic"), *dump = bench_arg(argc_, argv_, "dump", NULL);
    int64_t records = number("records", 0), seen = 0, next = 0, codecs[8] = {0};
    size_t count = 0, capacity = 1024, total = 0, dump_limit = (size_t)number("dump_bytes", 8 << 20), dumped = 0;
    size_t *sizes = bench_alloc(capacity * sizeof *sizes);
    FILE *file = dump ? fopen(dump, "wb") : NULL;
    wire broker = {0};
    if (dump && !file) bench_fail("cannot write %s", dump);
    wire_open(&broker, text("bootstrap"));
    while (next < records) {
        size_t size;
        batch_info info;
        wire_send_fetch(&broker, topic, 0, next, 8 << 20);
        const uint8_t *at = wire_take_fetch(&broker, &size), *end = at + size;
        if (!size) bench_fail("nothing at offset %" PRId64 " of %" PRId64, next, records);
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
            next = info.next_offset;
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
    printf("{\"records\": %" PRId64 ", \"end_offset\": %" PRId64 ", \"batches\": %zu, \"bytes\": %zu, "
           "\"batch_bytes\": {\"min\": %zu, \"median\": %zu, \"max\": %zu}, "
           "\"codecs\": {\"none\": %" PRId64 ", \"lz4\": %" PRId64 "}}\n",
           seen, next, count, total, count ? sizes[0] : 0, count ? sizes[count / 2] : 0, count ? sizes[count - 1] : 0,
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

static void consume(void) {
    const char *topic = text("topic"), *bootstrap = text("bootstrap");
    int64_t records = number("records", 0);
    int32_t max_bytes = (int32_t)number("max_bytes", 8 << 20);
    int decode = (int)number("decode", 1);
    const lz4f_api *lz4 = number("needs_lz4", 0) ? open_lz4() : NULL;
    wire broker = {0};
    bench_run run;
    decoder into;
    decoder_init(&into, lz4);
    bench_wait_for_go(&run, seconds());
    while (bench_more(&run)) {
        bench_pass pass = {0};
        int64_t next = 0;
        double start = bench_now();
        wire_open(&broker, bootstrap);
        wire_send_fetch(&broker, topic, 0, next, max_bytes);
        while (next < records) {
            size_t size;
            batch_info info;
            const uint8_t *data = wire_take_fetch(&broker, &size), *end = data + size;
            for (const uint8_t *at = data; batch_peek(at, (size_t)(end - at), &info); at += info.size) {
                next = info.next_offset;
                if (!decode) {
                    pass.records += info.records;
                    pass.bytes += (int64_t)info.size;
                }
            }
            /* The broker prepares the next answer while this one is decoded. */
            if (next < records) wire_send_fetch(&broker, topic, 0, next, max_bytes);
            if (!decode) continue;
            for (const uint8_t *at = data; batch_peek(at, (size_t)(end - at), &info); at += info.size) {
                decoder_batch(&into, at, &info);
                if (into.out.value_start[into.out.rows] >= CHUNK_BYTES) hand_over(&into, &pass);
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
    wire broker = {0};
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
        size_t sent = 0, answered = 0;
        double start = bench_now();
        wire_open(&broker, bootstrap);
        while (answered < count) {
            if (sent < count && sent - answered < (size_t)most) {
                wire_send_produce(&broker, topic, 0, batches[sent].data, batches[sent].size);
                sent++;
            } else {
                wire_take_produce(&broker);
                pass.records += batches[answered++].records;
            }
        }
        pass.seconds = bench_now() - start;
        pass.bytes = pass.records * (int64_t)payload.value_bytes;
        wire_close(&broker);
        bench_add(&run, pass);
    }
    bench_report(&run, lz4 ? lz4->path : "");
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
    else if (!strcmp(what, "inspect")) inspect();
    else if (!strcmp(what, "consume")) consume();
    else if (!strcmp(what, "produce")) produce();
    else if (!strcmp(what, "decode")) decode();
    else bench_fail("usage: floor fill|inspect|consume|produce|decode name=value ...");
    return 0;
}
