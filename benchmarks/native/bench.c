#include "bench.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

_Noreturn void bench_fail(const char *format, ...) {
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}

void *bench_alloc(size_t size) {
    void *memory = calloc(1, size ? size : 1);
    if (!memory) bench_fail("no memory for %zu bytes", size);
    return memory;
}

/* Arguments are written name=value. */
const char *bench_arg(int argc, char **argv, const char *name, const char *fallback) {
    size_t size = strlen(name);
    for (int i = 1; i < argc; i++)
        if (!strncmp(argv[i], name, size) && argv[i][size] == '=') return argv[i] + size + 1;
    return fallback;
}

const char *bench_need(int argc, char **argv, const char *name) {
    const char *value = bench_arg(argc, argv, name, NULL);
    if (!value) bench_fail("%s=... is missing", name);
    return value;
}

int64_t bench_number(int argc, char **argv, const char *name, int64_t fallback) {
    const char *value = bench_arg(argc, argv, name, NULL);
    return value ? strtoll(value, NULL, 10) : fallback;
}

int64_t bench_share(int64_t records, int number, int count) { return records * number / count; }

double bench_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Processor time of all threads of this process, in user and kernel mode. */
static double cpu_seconds(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
}

void bench_load(bench_payload *payload, const char *path, size_t value_bytes) {
    FILE *file = fopen(path, "rb");
    if (!file) bench_fail("cannot open %s", path);
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    if (size <= 0 || (size_t)size % value_bytes) bench_fail("%s is not made of %zu-byte values", path, value_bytes);
    payload->data = bench_alloc((size_t)size);
    if (fread(payload->data, 1, (size_t)size, file) != (size_t)size) bench_fail("cannot read %s", path);
    fclose(file);
    payload->value_bytes = value_bytes;
    payload->count = (int64_t)((size_t)size / value_bytes);
}

void bench_wait_for_go(bench_run *run, double seconds) {
    char line[16];
    run->count = 0;
    run->total = 0;
    run->seconds = seconds;
    puts("{\"ready\": true}");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin) || strcmp(line, "go\n")) bench_fail("expected \"go\" on standard input");
    run->cpu_start = cpu_seconds();
}

int bench_more(const bench_run *run) {
    return run->count == 0 || (run->total < run->seconds && run->count < BENCH_MAX_PASSES);
}

void bench_add(bench_run *run, bench_pass pass) {
    run->passes[run->count++] = pass;
    run->total += pass.seconds;
}

static int ascending(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return left < right ? -1 : left > right;
}

void bench_percentiles(bench_pass *pass, double *took, int64_t count) {
    qsort(took, (size_t)count, sizeof *took, ascending);
    pass->p50 = took[(count * 50 + 99) / 100 - 1] * 1e3;
    pass->p99 = took[(count * 99 + 99) / 100 - 1] * 1e3;
}

void bench_report(const bench_run *run, const char *note) {
    printf("{\"passes\": [");
    for (int i = 0; i < run->count; i++) {
        const bench_pass *pass = &run->passes[i];
        printf("%s{\"seconds\": %.9f, \"records\": %lld, \"bytes\": %lld, \"checksum\": %llu", i ? ", " : "",
               pass->seconds, (long long)pass->records, (long long)pass->bytes, (unsigned long long)pass->checksum);
        if (pass->p99 > 0) printf(", \"figures\": {\"p50\": %.6f, \"p99\": %.6f}", pass->p50, pass->p99);
        printf("}");
    }
    printf("], \"cpu_seconds\": %.6f, \"note\": \"%s\"}\n", cpu_seconds() - run->cpu_start, note);
    fflush(stdout);
}
