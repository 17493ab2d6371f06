/* TLS below a connection of the native I/O thread: a context for each configuration, a stream for each connection.
 *
 * A thread that may hold the GIL creates a context; it is not changed later, and its sessions have a lock. A stream
 * belongs to the I/O thread (kafwire/runtime/native/stream.h). Neither uses Python. */
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

/* One PEM object. Afterwards `error` is OpenSSL's reason why it is unusable; 0: it is used. */
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
    kw_pem_objects certificates; /* the client's own first, then the intermediate certificates */
    kw_pem key;
    kw_pem password; /* the key's password, without a zero at the end */
    kw_pem_objects revoked; /* revocation lists */
    const char *ciphers, *suites; /* for TLS 1.2 and for TLS 1.3; NULL: the library's default */
    int min_version, max_version;
    int verify, verify_name;
    int kernel; /* whether the kernel may encrypt, if it can (kTLS) */
} kw_tls_settings;

/* The unusable part of the settings. */
enum { KW_TLS_OK, KW_TLS_MEMORY, KW_TLS_TRUSTED, KW_TLS_CERTIFICATES, KW_TLS_KEY, KW_TLS_KEY_PASSWORD, KW_TLS_KEY_MATCH,
       KW_TLS_REVOKED, KW_TLS_CIPHERS, KW_TLS_VERSIONS,
       KW_TLS_KEY_LOCKED, /* the key is encrypted, and nothing says that the password is wrong */
       KW_TLS_ENCRYPTION }; /* the library does not have the encryption algorithm */

/* Return a context with one reference. Unusable objects are skipped and get an `error`, unless all of one kind are
 * unusable, or the client's own certificate is. Then return NULL, with the part in *problem and OpenSSL's text in
 * `reason`. */
kw_tls_context *kw_tls_context_new(const kw_openssl *openssl, const kw_tls_settings *settings, int *problem,
                                   char reason[KW_REASON_SIZE]);
void kw_tls_context_unref(kw_tls_context *context);

/* Counters of a context's connections. Atomic, relaxed. */
typedef struct kw_tls_statistics {
    uint64_t handshakes, resumed, kernel;
} kw_tls_statistics;
/* Whether the kernel may encrypt. */
int kw_tls_allows_kernel(const kw_tls_context *context);
void kw_tls_get_statistics(const kw_tls_context *context, kw_tls_statistics *statistics);

/* Return the subject of a certificate accepted by its common name since the last call, as it names no host. 0: none. */
int kw_tls_take_common_name(kw_tls_context *context, char subject[KW_REASON_SIZE]);

/* Return a stream to a server with this name or numeric address. The name is sent (SNI), and the certificate must match
 * it. Sessions are resumed with the same host and port only. NULL: no memory. */
kw_stream *kw_tls_stream_new(kw_tls_context *context, const char *host, int is_address, int port);

/* Read a PKCS#12 store as PEM texts that end with a zero; the caller frees them. Return 0, or a problem as above. */
int kw_tls_read_pkcs12(const kw_openssl *openssl, const void *data, size_t size, const char *password, char **key,
                       char **certificates, char reason[KW_REASON_SIZE]);

#endif
