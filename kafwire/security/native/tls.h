/* TLS under a connection of the native I/O thread: a context for each configuration, a stream for each connection.
 *
 * A context is made by a thread that may hold the GIL, and not changed afterwards; its sessions have a lock. A stream is
 * the I/O thread's (kafwire/runtime/native/stream.h). Neither knows of Python. */
#ifndef KAFWIRE_TLS_H
#define KAFWIRE_TLS_H

#include "kafwire/runtime/native/stream.h"
#include "kafwire/security/native/openssl.h"

typedef struct kw_tls_context kw_tls_context;

/* A PEM text. `data` NULL: there is none. */
typedef struct kw_pem {
    const char *data;
    size_t size;
} kw_pem;

/* One object a text. `error` says, afterwards, why OpenSSL could not use it; 0: it could. */
typedef struct kw_pem_object {
    kw_pem text;
    unsigned long error;
} kw_pem_object;

typedef struct kw_pem_objects {
    kw_pem_object *each;
    size_t count;
} kw_pem_objects;

typedef struct kw_tls_settings {
    kw_pem_objects trusted;      /* certificates; none: the system's trust store */
    kw_pem_objects certificates; /* of this client: its own first, then those between it and a root */
    kw_pem key;
    kw_pem password; /* of the key, without a zero at the end */
    kw_pem_objects revoked; /* revocation lists */
    const char *ciphers, *suites; /* of TLS 1.2 and of TLS 1.3; NULL: the library's */
    int min_version, max_version;
    int verify, verify_name;
    int kernel; /* whether the kernel may encrypt, where it can (kTLS) */
} kw_tls_settings;

/* What of the settings is not usable. */
enum { KW_TLS_OK, KW_TLS_MEMORY, KW_TLS_TRUSTED, KW_TLS_CERTIFICATES, KW_TLS_KEY, KW_TLS_KEY_PASSWORD, KW_TLS_KEY_MATCH,
       KW_TLS_REVOKED, KW_TLS_CIPHERS, KW_TLS_VERSIONS,
       KW_TLS_KEY_LOCKED,   /* it is encrypted, and nothing says that the password is wrong */
       KW_TLS_ENCRYPTION }; /* the library does not have the algorithm by which it is encrypted */

/* With one reference; objects that cannot be used are left out and have an `error`, unless none of a kind can, or this
 * client's own certificate. Or NULL, *problem says what, and `reason` how OpenSSL puts it. */
kw_tls_context *kw_tls_context_new(const kw_openssl *openssl, const kw_tls_settings *settings, int *problem,
                                   char reason[KW_REASON_SIZE]);
void kw_tls_context_unref(kw_tls_context *context);

/* What became of the connections of a context; each is a sum. Atomic, relaxed. */
typedef struct kw_tls_statistics {
    uint64_t handshakes, resumed, kernel;
} kw_tls_statistics;
/* Whether the kernel may encrypt. */
int kw_tls_allows_kernel(const kw_tls_context *context);
void kw_tls_get_statistics(const kw_tls_context *context, kw_tls_statistics *statistics);

/* The subject of a certificate that was accepted by its common name, as it names no host, since the last call. 0: none. */
int kw_tls_take_common_name(kw_tls_context *context, char subject[KW_REASON_SIZE]);

/* A stream to a server of this name (SNI, and what its certificate has to be for) or numeric address. Sessions are resumed
 * with the same host and port only. NULL: no memory. */
kw_stream *kw_tls_stream_new(kw_tls_context *context, const char *host, int is_address, int port);

/* A PKCS#12 store as PEM texts, each with a zero at its end: to be freed. 0, or a problem as above. */
int kw_tls_read_pkcs12(const kw_openssl *openssl, const void *data, size_t size, const char *password, char **key,
                       char **certificates, char reason[KW_REASON_SIZE]);

#endif
