/* librdkafka by itself, on its batch calls, with no Python around it.
 *
 *   rdkafka consume bootstrap= topic= records= seconds= [partitions=] conf.<option>=...
 *   rdkafka produce bootstrap= topic= records= payload= value_bytes= seconds= conf.<option>=...
 *   rdkafka wait    bootstrap= topic= warmup= records= payload= value_bytes= seconds= conf.<option>=...
 *
 * Every pass makes its own client; every payload is touched. Payloads are produced without a copy: the program keeps
 * them. Only failed deliveries call back, so that a success costs the application nothing. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "rdkafka_api.h"

#define BATCH 10000

static int64_t failed, reported;

static void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque) {
    (void)client;
    (void)opaque;
    reported++;
    if (message->err) failed++;
}

static void set(rd_kafka_conf_t *conf, const char *name, const char *value) {
    char error[512];
    if (rd_kafka_conf_set(conf, name, value, error, sizeof error) != RD_KAFKA_CONF_OK) bench_fail("%s", error);
}

static rd_kafka_t *make_client(rd_kafka_type_t type, int argc, char **argv) {
    char error[512], name[128];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "bootstrap.servers", bench_need(argc, argv, "bootstrap"));
    for (int i = 1; i < argc; i++) {
        const char *equals = strchr(argv[i], '=');
        if (strncmp(argv[i], "conf.", 5) || !equals) continue;
        snprintf(name, sizeof name, "%.*s", (int)(equals - argv[i] - 5), argv[i] + 5);
        set(conf, name, equals + 1);
    }
    if (type == RD_KAFKA_PRODUCER) rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    rd_kafka_t *client = rd_kafka_new(type, conf, error, sizeof error);
    if (!client) bench_fail("%s", error);
    return client;
}

static void check(rd_kafka_resp_err_t error, const char *what) {
    if (error) bench_fail("%s: %s", what, rd_kafka_err2str(error));
}

static void consume(int argc, char **argv) {
    const char *topic = bench_need(argc, argv, "topic");
    int64_t records = bench_number(argc, argv, "records", 0);
    int partitions = (int)bench_number(argc, argv, "partitions", 1);
    rd_kafka_message_t **messages = bench_alloc(BATCH * sizeof *messages);
    bench_run run;
    bench_wait_for_go(&run, atof(bench_need(argc, argv, "seconds")));
    while (bench_more(&run)) {
        bench_pass pass = {0};
        double start = bench_now();
        rd_kafka_t *client = make_client(RD_KAFKA_CONSUMER, argc, argv);
        rd_kafka_queue_t *queue = rd_kafka_queue_get_consumer(client);
        rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(partitions);
        for (int32_t i = 0; i < partitions; i++) {
            rd_kafka_topic_partition_list_add(list, topic, i);
            check(rd_kafka_topic_partition_list_set_offset(list, topic, i, 0), "offset");
        }
        check(rd_kafka_assign(client, list), "assign");
        while (pass.records < records) {
            /* The call returns when it has as many as asked for: asking for more than are left would wait in vain. */
            int64_t left = records - pass.records;
            ssize_t count = rd_kafka_consume_batch_queue(queue, 30000, messages, left < BATCH ? (size_t)left : BATCH);
            if (count <= 0) bench_fail("no messages for 30 s at %" PRId64 " of %" PRId64, pass.records, records);
            for (ssize_t i = 0; i < count; i++) {
                rd_kafka_message_t *message = messages[i];
                check(message->err, "message");
                pass.checksum += message->len ? ((uint8_t *)message->payload)[message->len - 1] : 0;
                pass.bytes += (int64_t)message->len;
                rd_kafka_message_destroy(message);
            }
            pass.records += count;
        }
        pass.seconds = bench_now() - start;
        rd_kafka_topic_partition_list_destroy(list);
        rd_kafka_queue_destroy(queue);
        rd_kafka_consumer_close(client);
        rd_kafka_destroy(client);
        bench_add(&run, pass);
    }
    bench_report(&run, rd_kafka_version_str());
}

/* One record after the other, each when the one before it was reported as delivered. */
static void wait_for_each(int argc, char **argv) {
    const char *name = bench_need(argc, argv, "topic");
    int64_t warmup = bench_number(argc, argv, "warmup", 0), records = warmup + bench_number(argc, argv, "records", 1);
    double *took = bench_alloc((size_t)records * sizeof *took);
    bench_payload payload;
    bench_run run;
    bench_load(&payload, bench_need(argc, argv, "payload"), (size_t)bench_number(argc, argv, "value_bytes", 100));
    bench_wait_for_go(&run, atof(bench_need(argc, argv, "seconds")));
    while (bench_more(&run)) {
        bench_pass pass = {0};
        rd_kafka_t *client = make_client(RD_KAFKA_PRODUCER, argc, argv);
        rd_kafka_topic_t *topic = rd_kafka_topic_new(client, name, NULL);
        if (!topic) bench_fail("no topic");
        failed = reported = 0;
        for (int64_t i = 0; i < records; i++) {
            double start = bench_now();
            rd_kafka_message_t message = {
                .payload = payload.data + (size_t)(i % payload.count) * payload.value_bytes,
                .len = payload.value_bytes,
            };
            if (rd_kafka_produce_batch(topic, RD_KAFKA_PARTITION_UA, 0, &message, 1) != 1) check(message.err, "produce");
            while (reported <= i) rd_kafka_poll(client, 30000);
            took[i] = bench_now() - start;
            pass.seconds += took[i];
        }
        if (failed) bench_fail("%" PRId64 " records were not delivered", failed);
        rd_kafka_topic_destroy(topic);
        rd_kafka_destroy(client);
        pass.records = records;
        pass.bytes = records * (int64_t)payload.value_bytes;
        bench_percentiles(&pass, took + warmup, records - warmup);
        bench_add(&run, pass);
    }
    bench_report(&run, rd_kafka_version_str());
}

static void produce(int argc, char **argv) {
    const char *name = bench_need(argc, argv, "topic");
    int64_t records = bench_number(argc, argv, "records", 0);
    rd_kafka_message_t *messages = bench_alloc(BATCH * sizeof *messages);
    bench_payload payload;
    bench_run run;
    bench_load(&payload, bench_need(argc, argv, "payload"), (size_t)bench_number(argc, argv, "value_bytes", 100));
    bench_wait_for_go(&run, atof(bench_need(argc, argv, "seconds")));
    while (bench_more(&run)) {
        bench_pass pass = {0};
        failed = 0;
        double start = bench_now();
        rd_kafka_t *client = make_client(RD_KAFKA_PRODUCER, argc, argv);
        rd_kafka_topic_t *topic = rd_kafka_topic_new(client, name, NULL);
        if (!topic) bench_fail("no topic");
        while (pass.records < records) {
            int count = records - pass.records < BATCH ? (int)(records - pass.records) : BATCH, waiting = count;
            for (int i = 0; i < count; i++)
                messages[i] = (rd_kafka_message_t){
                    .payload = payload.data + (size_t)((pass.records + i) % payload.count) * payload.value_bytes,
                    .len = payload.value_bytes,
                };
            while (waiting) {
                int taken = rd_kafka_produce_batch(topic, RD_KAFKA_PARTITION_UA, 0, messages, waiting), left = 0;
                if (taken == waiting) break;
                /* The queue is full: keep what was refused, wait for room. */
                for (int i = 0; i < waiting; i++) {
                    if (!messages[i].err) continue;
                    if (messages[i].err != RD_KAFKA_RESP_ERR__QUEUE_FULL) check(messages[i].err, "produce");
                    messages[left] = messages[i];
                    messages[left++].err = 0;
                }
                waiting = left;
                rd_kafka_poll(client, 5);
            }
            rd_kafka_poll(client, 0);
            pass.records += count;
        }
        check(rd_kafka_flush(client, 120000), "flush");
        pass.seconds = bench_now() - start;
        if (failed) bench_fail("%" PRId64 " records were not delivered", failed);
        pass.bytes = pass.records * (int64_t)payload.value_bytes;
        rd_kafka_topic_destroy(topic);
        rd_kafka_destroy(client);
        bench_add(&run, pass);
    }
    bench_report(&run, rd_kafka_version_str());
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp(what, "consume")) consume(argc, argv);
    else if (!strcmp(what, "produce")) produce(argc, argv);
    else if (!strcmp(what, "wait")) wait_for_each(argc, argv);
    else if (!strcmp(what, "version")) puts(rd_kafka_version_str());
    else bench_fail("usage: rdkafka consume|produce|wait|version name=value ...");
    return 0;
}
