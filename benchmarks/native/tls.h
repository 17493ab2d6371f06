/* TLS on a blocking socket, by the system's libssl 3 through dlopen: building needs no headers of OpenSSL. */
#ifndef KAFWIRE_BENCH_TLS_H
#define KAFWIRE_BENCH_TLS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct tls_context tls_context;
typedef struct tls tls;

/* `certificate` is a chain in PEM, `key` its private key. Ends the process on any failure. */
tls_context *tls_server(const char *certificate, const char *key);
/* `ca`: the certificates that are trusted, in PEM; the server's name or address is verified. */
tls_context *tls_client(const char *ca);

/* The handshake on a connected socket; `host` is the server's, NULL for a server. NULL: it failed (a server's only). */
tls *tls_open(tls_context *context, int fd, const char *host);
void tls_close(tls *self); /* the socket stays open */

ssize_t tls_read(tls *self, void *into, size_t size);      /* > 0, or 0 at the end, or < 0 */
int tls_write(tls *self, const void *data, size_t size);   /* all of it: 1, or 0 when the connection is gone */
const char *tls_name(tls *self);                           /* version and cipher */

#endif
