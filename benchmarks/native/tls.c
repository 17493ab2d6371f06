#include "tls.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

#define FILETYPE_PEM 1
#define VERIFY_PEER 1
#define CTRL_SET_HOST_NAME 55 /* SSL_set_tlsext_host_name is a macro */
#define CTRL_MIN_VERSION 123
#define TLS1_2 0x0303

static struct {
    void *(*server_method)(void), *(*client_method)(void), *(*context_new)(void *), *(*session_new)(void *);
    int (*use_chain)(void *, const char *), (*use_key)(void *, const char *, int), (*verify_file)(void *, const char *);
    void (*set_verify)(void *, int, void *);
    long (*context_ctrl)(void *, int, long, void *), (*ctrl)(void *, int, long, void *);
    int (*set_fd)(void *, int), (*accept)(void *), (*connect)(void *), (*set1_host)(void *, const char *);
    int (*read)(void *, void *, int), (*write)(void *, const void *, int), (*shutdown)(void *);
    void (*free)(void *), *(*get0_param)(void *);
    int (*set1_ip)(void *, const char *);
    const char *(*version)(void *), *(*cipher_name)(void *);
    void *(*cipher)(void *);
    unsigned long (*error)(void);
    void (*error_text)(unsigned long, char *, size_t);
} api;

struct tls_context {
    void *ssl;
    int is_server;
};

struct tls {
    void *ssl;
    char name[64];
};

static void *need(void *library, const char *name) {
    void *symbol = dlsym(library, name);
    if (!symbol) bench_fail("libssl: %s is missing", name);
    return symbol;
}

static void load(void) {
    if (api.read) return;
    void *ssl = dlopen("libssl.so.3", RTLD_LAZY | RTLD_LOCAL), *crypto = dlopen("libcrypto.so.3", RTLD_LAZY | RTLD_LOCAL);
    if (!ssl || !crypto) bench_fail("libssl: %s (Debian: apt install libssl3)", dlerror());
    *(void **)&api.server_method = need(ssl, "TLS_server_method");
    *(void **)&api.client_method = need(ssl, "TLS_client_method");
    *(void **)&api.context_new = need(ssl, "SSL_CTX_new");
    *(void **)&api.session_new = need(ssl, "SSL_new");
    *(void **)&api.use_chain = need(ssl, "SSL_CTX_use_certificate_chain_file");
    *(void **)&api.use_key = need(ssl, "SSL_CTX_use_PrivateKey_file");
    *(void **)&api.verify_file = need(ssl, "SSL_CTX_load_verify_file");
    *(void **)&api.set_verify = need(ssl, "SSL_CTX_set_verify");
    *(void **)&api.context_ctrl = need(ssl, "SSL_CTX_ctrl");
    *(void **)&api.ctrl = need(ssl, "SSL_ctrl");
    *(void **)&api.set_fd = need(ssl, "SSL_set_fd");
    *(void **)&api.accept = need(ssl, "SSL_accept");
    *(void **)&api.connect = need(ssl, "SSL_connect");
    *(void **)&api.set1_host = need(ssl, "SSL_set1_host");
    *(void **)&api.write = need(ssl, "SSL_write");
    *(void **)&api.shutdown = need(ssl, "SSL_shutdown");
    *(void **)&api.free = need(ssl, "SSL_free");
    *(void **)&api.get0_param = need(ssl, "SSL_get0_param");
    *(void **)&api.set1_ip = need(crypto, "X509_VERIFY_PARAM_set1_ip_asc");
    *(void **)&api.version = need(ssl, "SSL_get_version");
    *(void **)&api.cipher = need(ssl, "SSL_get_current_cipher");
    *(void **)&api.cipher_name = need(ssl, "SSL_CIPHER_get_name");
    *(void **)&api.error = need(crypto, "ERR_get_error");
    *(void **)&api.error_text = need(crypto, "ERR_error_string_n");
    *(void **)&api.read = need(ssl, "SSL_read");
}

static _Noreturn void give_up(const char *what) {
    char text[256];
    api.error_text(api.error(), text, sizeof text);
    bench_fail("%s: %s", what, text);
}

static tls_context *make(void *method) {
    tls_context *made = bench_alloc(sizeof *made);
    made->ssl = api.context_new(method);
    if (!made->ssl) give_up("TLS");
    api.context_ctrl(made->ssl, CTRL_MIN_VERSION, TLS1_2, NULL);
    return made;
}

tls_context *tls_server(const char *certificate, const char *key) {
    load();
    tls_context *made = make(api.server_method());
    made->is_server = 1;
    if (api.use_chain(made->ssl, certificate) != 1) give_up(certificate);
    if (api.use_key(made->ssl, key, FILETYPE_PEM) != 1) give_up(key);
    return made;
}

tls_context *tls_client(const char *ca) {
    load();
    tls_context *made = make(api.client_method());
    if (api.verify_file(made->ssl, ca) != 1) give_up(ca);
    api.set_verify(made->ssl, VERIFY_PEER, NULL);
    return made;
}

tls *tls_open(tls_context *context, int fd, const char *host) {
    struct in6_addr address;
    void *ssl = api.session_new(context->ssl);
    int done;
    if (!ssl || api.set_fd(ssl, fd) != 1) give_up("TLS");
    if (context->is_server) {
        done = api.accept(ssl);
    } else {
        int is_address = inet_pton(AF_INET, host, &address) == 1 || inet_pton(AF_INET6, host, &address) == 1;
        if (is_address) {
            if (api.set1_ip(api.get0_param(ssl), host) != 1) give_up(host);
        } else if (api.set1_host(ssl, host) != 1 || api.ctrl(ssl, CTRL_SET_HOST_NAME, 0, (void *)host) != 1) {
            give_up(host);
        }
        done = api.connect(ssl);
        if (done != 1) give_up("TLS handshake");
    }
    if (done != 1) {
        api.free(ssl);
        return NULL;
    }
    tls *made = bench_alloc(sizeof *made);
    made->ssl = ssl;
    snprintf(made->name, sizeof made->name, "%s %s", api.version(ssl), api.cipher_name(api.cipher(ssl)));
    return made;
}

void tls_close(tls *self) {
    api.shutdown(self->ssl);
    api.free(self->ssl);
    free(self);
}

ssize_t tls_read(tls *self, void *into, size_t size) {
    return api.read(self->ssl, into, size > 1 << 30 ? 1 << 30 : (int)size);
}

int tls_write(tls *self, const void *data, size_t size) {
    const uint8_t *at = data;
    while (size) {
        int sent = api.write(self->ssl, at, size > 1 << 30 ? 1 << 30 : (int)size);
        if (sent <= 0) return 0;
        at += sent;
        size -= (size_t)sent;
    }
    return 1;
}

const char *tls_name(tls *self) { return self->name; }
