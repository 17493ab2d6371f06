/* Connections of the I/O thread over TLS, to a server in threads of this process: opened, used, held and closed at random.
 *
 *     tls_stress SEED ROUNDS CA.pem SERVER.pem
 *
 * Every frame must come back as it was sent, and nothing may be left behind: run under a sanitizer. */
#define _GNU_SOURCE
#include "check.h"

#include "kafwire/runtime/native/loop.h"
#include "kafwire/security/native/tls.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LINKS = 12, REQUESTS = 24, MAX_FRAME = 1 << 20 };

/* What a server needs, beside what clients do. */
static struct {
    const SSL_METHOD *(*TLS_server_method)(void);
    int (*SSL_CTX_use_certificate_chain_file)(SSL_CTX *, const char *);
    int (*SSL_CTX_use_PrivateKey_file)(SSL_CTX *, const char *, int);
    void (*SSL_set_accept_state)(SSL *);
} more;

static const kw_openssl *openssl;
static SSL_CTX *server;
static int listener, ended;

static void bind_more(void *library) {
    *(void **)&more.TLS_server_method = dlsym(library, "TLS_server_method");
    *(void **)&more.SSL_CTX_use_certificate_chain_file = dlsym(library, "SSL_CTX_use_certificate_chain_file");
    *(void **)&more.SSL_CTX_use_PrivateKey_file = dlsym(library, "SSL_CTX_use_PrivateKey_file");
    *(void **)&more.SSL_set_accept_state = dlsym(library, "SSL_set_accept_state");
    CHECK(more.TLS_server_method && more.SSL_CTX_use_certificate_chain_file && more.SSL_CTX_use_PrivateKey_file);
    CHECK(more.SSL_set_accept_state);
}

static int read_exactly(SSL *ssl, uint8_t *data, size_t size) {
    for (size_t got = 0; size; data += got, size -= got)
        if (openssl->SSL_read_ex(ssl, data, size, &got) != 1) return 0;
    return 1;
}

/* Each frame is sent back by itself, once it is here, as it begins with its correlation id. */
static void *talk(void *argument) {
    int fd = (int)(intptr_t)argument;
    SSL *ssl = openssl->SSL_new(server);
    uint8_t *buffer = malloc(MAX_FRAME + 4);
    CHECK(ssl && buffer && openssl->SSL_set_fd(ssl, fd) == 1);
    more.SSL_set_accept_state(ssl);
    size_t sent = 0;
    if (openssl->SSL_do_handshake(ssl) == 1)
        while (read_exactly(ssl, buffer, 4)) {
            size_t size = (size_t)buffer[0] << 24 | buffer[1] << 16 | buffer[2] << 8 | buffer[3];
            CHECK(size <= MAX_FRAME);
            if (!read_exactly(ssl, buffer + 4, size)) break;
            if (openssl->SSL_write_ex(ssl, buffer, size + 4, &sent) != 1) break;
        }
    openssl->SSL_free(ssl);
    openssl->ERR_clear_error();
    close(fd);
    free(buffer);
    return NULL;
}

static pthread_t talkers[1 << 16];
static int talking;

static void *serve(void *unused) {
    (void)unused;
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        if (fd < 0 || __atomic_load_n(&ended, __ATOMIC_ACQUIRE)) {
            if (fd >= 0) close(fd);
            return NULL;
        }
        CHECK(talking < (int)(sizeof talkers / sizeof talkers[0]));
        CHECK(!pthread_create(&talkers[talking++], NULL, talk, (void *)(intptr_t)fd));
    }
}

static kw_pem read_file(const char *name) {
    FILE *file = fopen(name, "rb");
    char *data = malloc(1 << 16);
    CHECK(file && data);
    size_t size = fread(data, 1, 1 << 16, file);
    fclose(file);
    return (kw_pem){data, size};
}

typedef struct link {
    uint32_t id;
    int connected, closed, sent, responded, may_close;
} link_;

static void submit(kw_loop *loop, kw_pool *pool, dice *d, link_ *link) {
    uint32_t size = 4 + below(d, below(d, 4) ? 2000 : 200000);
    kw_buf *segment = kw_buf_new(pool, size);
    CHECK(segment);
    segment->size = size;
    uint32_t number = (uint32_t)link->sent;
    for (int i = 0; i < 4; i++) segment->data[i] = (uint8_t)(number >> (24 - 8 * i));
    for (uint32_t i = 4; i < size; i++) segment->data[i] = (uint8_t)(number * 31 + i);
    int error = kw_loop_submit(loop, link->id, number, (int32_t)number, &segment, 1, KW_EXPECT_RESPONSE);
    CHECK(!error || error == -EPIPE);
    if (!error) link->sent++;
    kw_buf_unref(segment);
}

static void take(kw_loop *loop, link_ *links) {
    struct pollfd watched = {.fd = kw_loop_fileno(loop), .events = POLLIN};
    CHECK(poll(&watched, 1, 30000) == 1);
    int error;
    for (kw_completion *each = kw_loop_drain(loop, &error), *next; each; each = next) {
        next = each->next;
        link_ *link = links;
        while (link->id != each->connection) link++;
        if (each->kind == KW_CONNECTED) link->connected = 1;
        if (each->kind == KW_RESPONSE) {
            CHECK(each->token == (uint64_t)link->responded++);
            for (size_t i = 4; i < each->frame->size; i++)
                CHECK(each->frame->data[i] == (uint8_t)((uint32_t)each->token * 31 + i));
        }
        if (each->kind == KW_CLOSED) {
            const char *reason = ((kw_closing *)each)->reason;
            if (!link->may_close) printf("%s\n", reason);
            CHECK(link->may_close);
            link->closed = 1;
        }
        kw_completion_free(each);
    }
}

static void one_round(dice *d, kw_pool *pool, kw_tls_context *context, int port) {
    link_ links[LINKS] = {{0}};
    int error;
    kw_loop *loop = kw_loop_new(pool, &error);
    CHECK(loop);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int i = 0; i < LINKS; i++) {
        kw_stream *stream = kw_tls_stream_new(context, "localhost", 0, port);
        int64_t id = kw_loop_connect(loop, (struct sockaddr *)&address, sizeof address, stream, MAX_FRAME,
                                     below(d, 2) ? 4096 : 0, below(d, 2) ? 4096 : 0);
        CHECK(stream && id > 0);
        links[i].id = (uint32_t)id;
    }
    for (int i = 0; i < LINKS * REQUESTS; i++) {
        link_ *link = &links[below(d, LINKS)];
        if (link->closed) continue;
        switch (below(d, 30)) {
        case 0:
            link->may_close = 1;
            CHECK(!kw_loop_close_connection(loop, link->id));
            break;
        case 1:
            CHECK(!kw_loop_hold(loop, link->id, 1) || link->may_close);
            submit(loop, pool, d, link);
            CHECK(!kw_loop_hold(loop, link->id, 0) || link->may_close);
            break;
        default:
            submit(loop, pool, d, link);
        }
        if (!below(d, 20) && link->sent > link->responded && !link->may_close) take(loop, links);
    }
    int stop_early = !below(d, 3);
    for (int i = 0; i < LINKS && !stop_early; i++)
        while (!links[i].closed && links[i].responded < links[i].sent && !links[i].may_close) take(loop, links);
    for (int i = 0; i < LINKS; i++) links[i].may_close = 1;
    kw_loop_free(loop);
}

int main(int argc, char **argv) {
    CHECK(argc == 5);
    signal(SIGPIPE, SIG_IGN); /* of the server's threads; the I/O thread takes no signals */
    dice d = strtoull(argv[1], NULL, 10);
    const char *why = "";
    char reason[KW_REASON_SIZE];
    int problem;
    void *library = dlopen("libssl.so.3", RTLD_NOW | RTLD_GLOBAL);
    CHECK(library);
    openssl = kw_openssl_bind(3, &why);
    CHECK(openssl);
    bind_more(library);
    server = openssl->SSL_CTX_new(more.TLS_server_method());
    CHECK(more.SSL_CTX_use_certificate_chain_file(server, argv[4]) == 1);
    CHECK(more.SSL_CTX_use_PrivateKey_file(server, argv[4], 1) == 1);
    kw_pem_object trusted = {.text = read_file(argv[3])};
    kw_tls_settings settings = {.trusted = {&trusted, 1}, .min_version = KW_TLS_1_2, .max_version = KW_TLS_1_3};
    settings.verify = settings.verify_name = 1;
    static kw_pool *pool;
    pool = kw_pool_new(64 << 20);
    kw_tls_context *context = kw_tls_context_new(openssl, &settings, &problem, reason);
    CHECK(context);

    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listener = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(!bind(listener, (struct sockaddr *)&address, size) && !listen(listener, 128));
    CHECK(!getsockname(listener, (struct sockaddr *)&address, &size));
    pthread_t serving;
    CHECK(!pthread_create(&serving, NULL, serve, NULL));

    for (int rounds = atoi(argv[2]); rounds > 0; rounds--) one_round(&d, pool, context, ntohs(address.sin_port));
    kw_tls_statistics statistics;
    kw_tls_get_statistics(context, &statistics);
    CHECK(statistics.resumed > 0 && statistics.resumed < statistics.handshakes);

    __atomic_store_n(&ended, 1, __ATOMIC_RELEASE);
    shutdown(listener, SHUT_RDWR);
    pthread_join(serving, NULL);
    close(listener);
    for (int i = 0; i < talking; i++) pthread_join(talkers[i], NULL);
    kw_tls_context_unref(context);
    openssl->SSL_CTX_free(server);
    CHECK(kw_pool_live_bytes(pool) == 0);
    free((void *)trusted.text.data);
    printf("ok: %llu handshakes, %llu resumed\n", (unsigned long long)statistics.handshakes,
           (unsigned long long)statistics.resumed);
    return 0;
}
