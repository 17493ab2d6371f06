/* The parts shared by the TLS context and the TLS streams. */
#ifndef KAFWIRE_CONTEXT_H
#define KAFWIRE_CONTEXT_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "kafwire/security/native/tls.h"

#include <pthread.h>

enum { KW_TLS_READ_AHEAD = 64 << 10 };

/* The last session with one server. It lives as long as the context. */
typedef struct kw_tls_session {
    struct kw_tls_session *next;
    SSL_SESSION *session; /* context->lock */
    int port;
    char host[];
} kw_tls_session;

struct kw_tls_context {
    const kw_openssl *openssl;
    SSL_CTX *ssl;
    uint32_t refs; /* atomic */
    int verify_name;
    pthread_mutex_t lock;
    kw_tls_session *sessions; /* lock */
    kw_tls_statistics statistics;
    char common_name[KW_REASON_SIZE]; /* lock; of `kw_tls_take_common_name` */
};

kw_tls_context *kw_tls_context_ref(kw_tls_context *context);
/* Return the slot for the session with a server; NULL: there is no room. */
kw_tls_session *kw_tls_session_of(kw_tls_context *context, const char *host, int port);
/* Describe the oldest error of this thread in OpenSSL's words, and clear all errors. */
void kw_tls_explain(const kw_openssl *openssl, char *reason, size_t size);

/* OpenSSL callbacks, for a stream. */
int kw_tls_keep_session(SSL *ssl, SSL_SESSION *session);
int kw_tls_on_verify(int ok, X509_STORE_CTX *store);

#endif
