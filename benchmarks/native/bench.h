/* What every C contender shares: arguments, the clock, and the conversation with the harness.
 *
 * A contender prepares itself (arguments, payload), prints one "ready" line, waits for "go" on standard input, repeats
 * passes until `seconds` of timed work are done, and prints one JSON line with its passes. A pass starts before the
 * client is made and ends when the last record is in hand or acknowledged. */
#ifndef KAFWIRE_BENCH_H
#define KAFWIRE_BENCH_H

#include <stddef.h>
#include <stdint.h>

#define BENCH_MAX_PASSES 4096
#define BENCH_KEY_AT 21 /* in a line of measurements: the sensor's name */

typedef struct {
    double seconds;
    int64_t records;
    int64_t bytes;     /* value bytes */
    uint64_t checksum; /* sum of the last byte of every value: proof that every payload was touched */
    double p50, p99;   /* milliseconds of single round trips; 0: none were timed */
} bench_pass;

typedef struct {
    bench_pass passes[BENCH_MAX_PASSES];
    int count;
    double total;
    double seconds;
    double cpu_start;
} bench_run;

/* Fixed-size values, concatenated in a file. */
typedef struct {
    uint8_t *data;
    size_t value_bytes;
    size_t key_bytes; /* 0: no keys; else each value's bytes from BENCH_KEY_AT on are its key */
    int64_t count;
} bench_payload;

_Noreturn void bench_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
void *bench_alloc(size_t size); /* zeroed, or the process ends */

const char *bench_arg(int argc, char **argv, const char *name, const char *fallback);
const char *bench_need(int argc, char **argv, const char *name);
int64_t bench_number(int argc, char **argv, const char *name, int64_t fallback);

/* Partition `number` of `count` holds the records from here to where the next one begins. */
int64_t bench_share(int64_t records, int number, int count);

double bench_now(void);
void bench_load(bench_payload *payload, const char *path, size_t value_bytes);

void bench_wait_for_go(bench_run *run, double seconds);
int bench_more(const bench_run *run); /* another pass is due */
void bench_add(bench_run *run, bench_pass pass);
/* Fill in p50 and p99 of `count` times in seconds, which are sorted by that. */
void bench_percentiles(bench_pass *pass, double *took, int64_t count);
void bench_report(const bench_run *run, const char *note);

#endif
