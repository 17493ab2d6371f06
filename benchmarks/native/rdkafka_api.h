/* The part of librdkafka's public C API that the benchmark calls, declared from its documentation: the confluent-kafka
 * wheel ships the library without its header. */
#ifndef KAFWIRE_BENCH_RDKAFKA_API_H
#define KAFWIRE_BENCH_RDKAFKA_API_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct rd_kafka_s rd_kafka_t;
typedef struct rd_kafka_conf_s rd_kafka_conf_t;
typedef struct rd_kafka_topic_s rd_kafka_topic_t;
typedef struct rd_kafka_topic_conf_s rd_kafka_topic_conf_t;
typedef struct rd_kafka_queue_s rd_kafka_queue_t;
typedef struct rd_kafka_topic_partition_list_s rd_kafka_topic_partition_list_t;
typedef struct rd_kafka_topic_partition_s rd_kafka_topic_partition_t;

typedef enum { RD_KAFKA_PRODUCER, RD_KAFKA_CONSUMER } rd_kafka_type_t;
typedef enum { RD_KAFKA_CONF_UNKNOWN = -2, RD_KAFKA_CONF_INVALID = -1, RD_KAFKA_CONF_OK = 0 } rd_kafka_conf_res_t;
typedef int rd_kafka_resp_err_t;

#define RD_KAFKA_RESP_ERR__QUEUE_FULL (-184)
#define RD_KAFKA_PARTITION_UA ((int32_t)-1)

typedef struct rd_kafka_message_s {
    rd_kafka_resp_err_t err;
    rd_kafka_topic_t *rkt;
    int32_t partition;
    void *payload;
    size_t len;
    void *key;
    size_t key_len;
    int64_t offset;
    void *_private;
} rd_kafka_message_t;

const char *rd_kafka_version_str(void);
const char *rd_kafka_err2str(rd_kafka_resp_err_t error);

rd_kafka_conf_t *rd_kafka_conf_new(void);
rd_kafka_conf_res_t rd_kafka_conf_set(rd_kafka_conf_t *conf, const char *name, const char *value, char *error,
                                      size_t error_size);
void rd_kafka_conf_set_dr_msg_cb(rd_kafka_conf_t *conf,
                                 void (*callback)(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque));
rd_kafka_t *rd_kafka_new(rd_kafka_type_t type, rd_kafka_conf_t *conf, char *error, size_t error_size);
void rd_kafka_destroy(rd_kafka_t *client);

rd_kafka_topic_t *rd_kafka_topic_new(rd_kafka_t *client, const char *topic, rd_kafka_topic_conf_t *conf);
void rd_kafka_topic_destroy(rd_kafka_topic_t *topic);

rd_kafka_topic_partition_list_t *rd_kafka_topic_partition_list_new(int size);
rd_kafka_topic_partition_t *rd_kafka_topic_partition_list_add(rd_kafka_topic_partition_list_t *list, const char *topic,
                                                              int32_t partition);
rd_kafka_resp_err_t rd_kafka_topic_partition_list_set_offset(rd_kafka_topic_partition_list_t *list, const char *topic,
                                                             int32_t partition, int64_t offset);
void rd_kafka_topic_partition_list_destroy(rd_kafka_topic_partition_list_t *list);
rd_kafka_resp_err_t rd_kafka_assign(rd_kafka_t *client, const rd_kafka_topic_partition_list_t *partitions);
rd_kafka_resp_err_t rd_kafka_consumer_close(rd_kafka_t *client);

rd_kafka_queue_t *rd_kafka_queue_get_consumer(rd_kafka_t *client);
void rd_kafka_queue_destroy(rd_kafka_queue_t *queue);
ssize_t rd_kafka_consume_batch_queue(rd_kafka_queue_t *queue, int timeout_ms, rd_kafka_message_t **messages,
                                     size_t size);
void rd_kafka_message_destroy(rd_kafka_message_t *message);

int rd_kafka_produce_batch(rd_kafka_topic_t *topic, int32_t partition, int flags, rd_kafka_message_t *messages,
                           int count);
int rd_kafka_poll(rd_kafka_t *client, int timeout_ms);
rd_kafka_resp_err_t rd_kafka_flush(rd_kafka_t *client, int timeout_ms);
int rd_kafka_outq_len(rd_kafka_t *client);

#endif
