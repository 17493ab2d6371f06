#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "kafwire/security/native/openssl.h"

#include <dlfcn.h>
#include <stdio.h>

static kw_openssl functions;
static int bound;
static char missing[96];

/* Only a library that is loaded already: another one beside it, of another version, would be a second OpenSSL with a
 * configuration, a trust store and faults of its own. */
static void *loaded(const char *const *names) {
    for (; *names; names++) {
        void *library = dlopen(*names, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
        if (library) return library;
    }
    return NULL;
}

const kw_openssl *kw_openssl_bind(const char **why) {
    static const char *const ssl_names[] = {"libssl.so.3", "libssl.3.dylib", NULL};
    static const char *const crypto_names[] = {"libcrypto.so.3", "libcrypto.3.dylib", NULL};
    if (bound) return &functions;
    void *ssl = loaded(ssl_names), *crypto = loaded(crypto_names);
    if (!ssl || !crypto) {
        *why = "this interpreter's module ssl has not loaded a shared libssl 3";
        return NULL;
    }
#define BIND(library, name)                                                                                            \
    if (!(*(void **)&functions.name = dlsym(library, #name))) {                                                        \
        snprintf(missing, sizeof missing, "the libssl that is loaded has no %s", #name);                               \
        *why = missing;                                                                                                \
        return NULL;                                                                                                   \
    }
#define BIND_SSL(result, name, arguments) BIND(ssl, name)
#define BIND_CRYPTO(result, name, arguments) BIND(crypto, name)
    KW_SSL_FUNCTIONS(BIND_SSL)
    KW_CRYPTO_FUNCTIONS(BIND_CRYPTO)
    if (functions.OpenSSL_version_num() >> 28 != 3) {
        *why = "the libssl that is loaded is not OpenSSL 3";
        return NULL;
    }
    bound = 1;
    return &functions;
}
