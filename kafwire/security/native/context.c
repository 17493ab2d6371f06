#include "kafwire/security/native/context.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The maximum number of stored sessions, one for each host and port; further sessions are not stored. */
enum { SESSIONS = 1024 };

void kw_tls_explain(const kw_openssl *openssl, char *reason, size_t size) {
    unsigned long error = openssl->ERR_get_error();
    const char *text = error ? openssl->ERR_reason_error_string(error) : NULL;
    snprintf(reason, size, "%s", text ? text : "no reason is known");
    openssl->ERR_clear_error();
}

/* Return why an encrypted object could not be read: KW_TLS_ENCRYPTION, KW_TLS_KEY_PASSWORD if the password was tried
 * and is wrong, else `otherwise`. A library without the algorithm also reports that it could not decrypt. */
static int explain_lock(const kw_openssl *openssl, int otherwise, char *reason, size_t size) {
    int problem = otherwise, has_mac = 1;
    const char *text = NULL;
    for (unsigned long error; (error = openssl->ERR_get_error());) {
        int library = (int)(error >> KW_LIBRARY_SHIFT & KW_LIBRARY_MASK), why = (int)(error & KW_REASON_MASK);
        if (!text) text = openssl->ERR_reason_error_string(error);
        if (library == KW_LIBRARY_PKCS12 && why == KW_REASON_NO_MAC) has_mac = 0;
        if (library == KW_LIBRARY_EVP && why == KW_REASON_UNSUPPORTED) problem = KW_TLS_ENCRYPTION;
        if (problem != KW_TLS_ENCRYPTION && ((library == KW_LIBRARY_PROVIDER && why == KW_REASON_BAD_DECRYPT) ||
                                             (library == KW_LIBRARY_PKCS12 && why == KW_REASON_BAD_MAC && has_mac)))
            problem = KW_TLS_KEY_PASSWORD;
    }
    snprintf(reason, size, "%s", text ? text : "no reason is known");
    return problem;
}

/* ---- PEM ---- */

/* Without a callback, OpenSSL would ask for the password on the terminal. */
static int give_password(char *buffer, int size, int writing, void *data) {
    const kw_pem *password = data;
    (void)writing;
    if (!password || !password->data || password->size > (size_t)size) return -1;
    memcpy(buffer, password->data, password->size);
    return (int)password->size;
}

static BIO *bio_of(const kw_openssl *openssl, const kw_pem *pem) {
    return pem->size > INT_MAX ? NULL : openssl->BIO_new_mem_buf(pem->data, (int)pem->size);
}

typedef int use_object(kw_tls_context *context, BIO *text, size_t at);

static int trust(kw_tls_context *context, BIO *text, size_t at) {
    const kw_openssl *openssl = context->openssl;
    X509 *certificate = openssl->PEM_read_bio_X509(text, NULL, give_password, NULL);
    (void)at;
    int used = certificate && openssl->X509_STORE_add_cert(openssl->SSL_CTX_get_cert_store(context->ssl), certificate);
    openssl->X509_free(certificate);
    return used;
}

static int revoke(kw_tls_context *context, BIO *text, size_t at) {
    const kw_openssl *openssl = context->openssl;
    X509_CRL *list = openssl->PEM_read_bio_X509_CRL(text, NULL, give_password, NULL);
    (void)at;
    int used = list && openssl->X509_STORE_add_crl(openssl->SSL_CTX_get_cert_store(context->ssl), list);
    openssl->X509_CRL_free(list);
    return used;
}

/* The client's own certificate first, then the intermediate certificates. */
static int show(kw_tls_context *context, BIO *text, size_t at) {
    const kw_openssl *openssl = context->openssl;
    X509 *certificate = openssl->PEM_read_bio_X509(text, NULL, give_password, NULL);
    int used = certificate && (at ? openssl->SSL_CTX_ctrl(context->ssl, KW_CTRL_CHAIN_CERTIFICATE, 1, certificate) > 0
                                  : openssl->SSL_CTX_use_certificate(context->ssl, certificate) > 0);
    openssl->X509_free(certificate);
    return used;
}

/* Use each object separately: an unreadable one does not hide the next. Returns 0, with OpenSSL's error in the queue,
 * if none can be used, or if the first one is required and cannot. */
static int use_all(kw_tls_context *context, const kw_pem_objects *objects, use_object *use, int needs_first) {
    const kw_openssl *openssl = context->openssl;
    size_t used = 0;
    for (size_t at = 0; at < objects->count; at++) {
        kw_pem_object *object = &objects->each[at];
        openssl->ERR_clear_error();
        BIO *text = bio_of(openssl, &object->text);
        int usable = text && use(context, text, at);
        openssl->BIO_free(text);
        object->error = usable ? 0 : openssl->ERR_peek_error();
        if (!usable && !object->error) object->error = ~0UL;
        if (!usable && !at && needs_first) return 0;
        used += usable;
    }
    if (used) openssl->ERR_clear_error();
    return used > 0;
}

static int use_key(kw_tls_context *context, const kw_tls_settings *settings) {
    const kw_openssl *openssl = context->openssl;
    BIO *bio = bio_of(openssl, &settings->key);
    EVP_PKEY *key = bio ? openssl->PEM_read_bio_PrivateKey(bio, NULL, give_password, (void *)&settings->password) : NULL;
    openssl->BIO_free(bio);
    if (!key) {
        int locked = memmem(settings->key.data, settings->key.size, "ENCRYPTED", 9) != NULL;
        return locked ? KW_TLS_KEY_LOCKED : KW_TLS_KEY;
    }
    int used = openssl->SSL_CTX_use_PrivateKey(context->ssl, key) == 1 &&
               openssl->SSL_CTX_check_private_key(context->ssl) == 1;
    openssl->EVP_PKEY_free(key);
    return used ? KW_TLS_OK : KW_TLS_KEY_MATCH;
}

/* ---- the context ---- */

static int on_session(SSL *ssl, SSL_SESSION *session) { return kw_tls_keep_session(ssl, session); }

static int configure(kw_tls_context *context, const kw_tls_settings *settings) {
    const kw_openssl *openssl = context->openssl;
    SSL_CTX *ssl = context->ssl;
    uint64_t kernel = settings->kernel ? KW_OP_ENABLE_KTLS : 0;
    openssl->SSL_CTX_set_options(ssl, KW_OP_NO_COMPRESSION | KW_OP_NO_RENEGOTIATION | kernel);
    openssl->SSL_CTX_ctrl(ssl, KW_CTRL_MODE, KW_MODE_PARTIAL_WRITE | KW_MODE_MOVING_BUFFER, NULL);
    /* One system call reads several records. */
    openssl->SSL_CTX_ctrl(ssl, KW_CTRL_READ_AHEAD, 1, NULL);
    openssl->SSL_CTX_set_default_read_buffer_len(ssl, KW_TLS_READ_AHEAD);
    openssl->SSL_CTX_ctrl(ssl, KW_CTRL_SESSION_CACHE, KW_CACHE_CLIENT | KW_CACHE_NOT_INTERNAL, NULL);
    openssl->SSL_CTX_sess_set_new_cb(ssl, on_session);
    if (openssl->SSL_CTX_ctrl(ssl, KW_CTRL_MIN_VERSION, settings->min_version, NULL) != 1 ||
        openssl->SSL_CTX_ctrl(ssl, KW_CTRL_MAX_VERSION, settings->max_version, NULL) != 1)
        return KW_TLS_VERSIONS;
    if ((settings->ciphers && openssl->SSL_CTX_set_cipher_list(ssl, settings->ciphers) != 1) ||
        (settings->suites && openssl->SSL_CTX_set_ciphersuites(ssl, settings->suites) != 1))
        return KW_TLS_CIPHERS;
    openssl->SSL_CTX_set_verify(ssl, settings->verify ? KW_VERIFY_PEER : KW_VERIFY_NONE,
                                settings->verify ? kw_tls_on_verify : NULL);
    /* Any certificate of the trust store is an anchor, even an intermediate one, as in Java. */
    X509_STORE *store = openssl->SSL_CTX_get_cert_store(ssl);
    openssl->X509_STORE_set_flags(store, KW_PARTIAL_CHAIN);
    if (settings->trusted.count) {
        if (!use_all(context, &settings->trusted, trust, 0)) return KW_TLS_TRUSTED;
    } else if (openssl->SSL_CTX_set_default_verify_paths(ssl) != 1)
        return KW_TLS_TRUSTED;
    if (settings->revoked.count) {
        if (!use_all(context, &settings->revoked, revoke, 0)) return KW_TLS_REVOKED;
        openssl->X509_STORE_set_flags(store, KW_CRL_CHECK);
    }
    if (settings->certificates.count && !use_all(context, &settings->certificates, show, 1)) return KW_TLS_CERTIFICATES;
    return settings->key.data ? use_key(context, settings) : KW_TLS_OK;
}

kw_tls_context *kw_tls_context_new(const kw_openssl *openssl, const kw_tls_settings *settings, int *problem,
                                   char reason[KW_REASON_SIZE]) {
    kw_tls_context *context = calloc(1, sizeof *context);
    *problem = KW_TLS_MEMORY;
    snprintf(reason, KW_REASON_SIZE, "no memory");
    if (!context) return NULL;
    openssl->ERR_clear_error();
    context->openssl = openssl;
    context->refs = 1;
    context->verify_name = settings->verify && settings->verify_name;
    pthread_mutex_init(&context->lock, NULL);
    context->ssl = openssl->SSL_CTX_new(openssl->TLS_client_method());
    if (context->ssl) *problem = configure(context, settings);
    if (*problem == KW_TLS_OK) {
        /* OpenSSL reports the end of a PEM text as an error, which must not be mistaken for one of a connection. */
        openssl->ERR_clear_error();
        return context;
    }
    if (*problem == KW_TLS_KEY_LOCKED)
        *problem = explain_lock(openssl, KW_TLS_KEY_LOCKED, reason, KW_REASON_SIZE);
    else
        kw_tls_explain(openssl, reason, KW_REASON_SIZE);
    kw_tls_context_unref(context);
    return NULL;
}

kw_tls_context *kw_tls_context_ref(kw_tls_context *context) {
    __atomic_fetch_add(&context->refs, 1, __ATOMIC_RELAXED);
    return context;
}

void kw_tls_context_unref(kw_tls_context *context) {
    if (!context || __atomic_fetch_sub(&context->refs, 1, __ATOMIC_ACQ_REL) != 1) return;
    for (kw_tls_session *each = context->sessions, *next; each; each = next) {
        next = each->next;
        if (each->session) context->openssl->SSL_SESSION_free(each->session);
        free(each);
    }
    context->openssl->SSL_CTX_free(context->ssl);
    pthread_mutex_destroy(&context->lock);
    free(context);
}

int kw_tls_allows_kernel(const kw_tls_context *context) {
    return (context->openssl->SSL_CTX_get_options(context->ssl) & KW_OP_ENABLE_KTLS) != 0;
}

void kw_tls_get_statistics(const kw_tls_context *context, kw_tls_statistics *statistics) {
    statistics->handshakes = __atomic_load_n(&context->statistics.handshakes, __ATOMIC_RELAXED);
    statistics->resumed = __atomic_load_n(&context->statistics.resumed, __ATOMIC_RELAXED);
    statistics->kernel = __atomic_load_n(&context->statistics.kernel, __ATOMIC_RELAXED);
}

int kw_tls_take_common_name(kw_tls_context *context, char subject[KW_REASON_SIZE]) {
    pthread_mutex_lock(&context->lock);
    memcpy(subject, context->common_name, KW_REASON_SIZE);
    context->common_name[0] = 0;
    pthread_mutex_unlock(&context->lock);
    return *subject != 0;
}

/* ---- sessions ---- */

kw_tls_session *kw_tls_session_of(kw_tls_context *context, const char *host, int port) {
    int count = 0;
    pthread_mutex_lock(&context->lock);
    kw_tls_session *found = context->sessions;
    for (; found && (found->port != port || strcmp(found->host, host)); found = found->next) count++;
    if (!found && count < SESSIONS) {
        size_t size = strlen(host) + 1;
        found = calloc(1, sizeof *found + size);
        if (found) {
            memcpy(found->host, host, size);
            found->port = port;
            found->next = context->sessions;
            context->sessions = found;
        }
    }
    pthread_mutex_unlock(&context->lock);
    return found;
}

/* ---- PKCS#12 ---- */

/* Return the content of a memory BIO, with a zero at the end. */
static char *text_of(const kw_openssl *openssl, BIO *bio) {
    long size = openssl->BIO_ctrl(bio, KW_BIO_PENDING, 0, NULL);
    char *text = size < 0 || size > INT_MAX ? NULL : malloc((size_t)size + 1);
    if (!text) return NULL;
    int got = size ? openssl->BIO_read(bio, text, (int)size) : 0;
    text[got < 0 ? 0 : got] = 0;
    return text;
}

int kw_tls_read_pkcs12(const kw_openssl *openssl, const void *data, size_t size, const char *password, char **key,
                       char **certificates, char reason[KW_REASON_SIZE]) {
    EVP_PKEY *private_key = NULL;
    X509 *own = NULL;
    OPENSSL_STACK *others = NULL;
    int problem = KW_TLS_MEMORY;
    *key = *certificates = NULL;
    snprintf(reason, KW_REASON_SIZE, "no memory");
    openssl->ERR_clear_error();
    BIO *in = size > INT_MAX ? NULL : openssl->BIO_new_mem_buf(data, (int)size);
    BIO *key_text = openssl->BIO_new(openssl->BIO_s_mem()), *texts = openssl->BIO_new(openssl->BIO_s_mem());
    PKCS12 *store = in ? openssl->d2i_PKCS12_bio(in, NULL) : NULL;
    if (!store) {
        problem = KW_TLS_CERTIFICATES;
        kw_tls_explain(openssl, reason, KW_REASON_SIZE);
    } else if (openssl->PKCS12_parse(store, password, &private_key, &own, &others) != 1) {
        problem = explain_lock(openssl, KW_TLS_CERTIFICATES, reason, KW_REASON_SIZE);
    } else if (key_text && texts) {
        int written = 1;
        if (private_key)
            written = openssl->PEM_write_bio_PrivateKey(key_text, private_key, NULL, NULL, 0, NULL, NULL);
        if (own) written = written && openssl->PEM_write_bio_X509(texts, own);
        int count = others ? openssl->OPENSSL_sk_num(others) : 0;
        for (int i = 0; i < count; i++)
            written = written && openssl->PEM_write_bio_X509(texts, openssl->OPENSSL_sk_value(others, i));
        *key = text_of(openssl, key_text);
        *certificates = text_of(openssl, texts);
        if (written && *key && *certificates) problem = KW_TLS_OK;
    }
    if (others) {
        for (int i = openssl->OPENSSL_sk_num(others); i-- > 0;) openssl->X509_free(openssl->OPENSSL_sk_value(others, i));
        openssl->OPENSSL_sk_free(others);
    }
    openssl->X509_free(own);
    openssl->EVP_PKEY_free(private_key);
    openssl->PKCS12_free(store);
    openssl->BIO_free(in);
    openssl->BIO_free(key_text);
    openssl->BIO_free(texts);
    openssl->ERR_clear_error();
    return problem;
}
