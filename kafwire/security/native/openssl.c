#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "kafwire/security/native/openssl.h"

#include <dlfcn.h>
#include <stdio.h>

static kw_openssl functions;
static int bound;
static char missing[128];

/* Only a library that is loaded already: another one beside it, of another version, would be a second OpenSSL with a
 * configuration, a trust store and faults of its own. */
static void *loaded(const char *part, int version) {
    static const char *const patterns[] = {"lib%s.so.%d", "lib%s.%d.dylib"};
    char name[32];
    void *library = NULL;
    for (int i = 0; i < 2 && !library; i++) {
        snprintf(name, sizeof name, patterns[i], part, version);
        library = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    }
    return library;
}

const kw_openssl *kw_openssl_bind(int version, const char **why) {
    if (bound) return &functions;
    if (version < KW_OLDEST_OPENSSL || version > KW_NEWEST_OPENSSL) {
        snprintf(missing, sizeof missing, "this interpreter's module ssl has OpenSSL %d, kafwire knows %d to %d",
                 version, KW_OLDEST_OPENSSL, KW_NEWEST_OPENSSL);
        *why = missing;
        return NULL;
    }
    void *ssl = loaded("ssl", version), *crypto = loaded("crypto", version);
    if (!ssl || !crypto) {
        snprintf(missing, sizeof missing, "this interpreter's module ssl has not loaded a shared libssl %d", version);
        *why = missing;
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
    if (functions.OpenSSL_version_num() >> 28 != (unsigned long)version) {
        snprintf(missing, sizeof missing, "the libssl %d that is loaded is another version of OpenSSL", version);
        *why = missing;
        return NULL;
    }
    bound = 1;
    return &functions;
}

const kw_openssl *kw_openssl_bound(void) { return &functions; }
