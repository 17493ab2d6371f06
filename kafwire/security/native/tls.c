#include "kafwire/security/native/context.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The most bytes of a TLS record. Small slices are gathered into one record. */
enum { RECORD = 16 << 10 };

typedef struct tls_stream {
    kw_stream stream;
    kw_tls_context *context;
    SSL *ssl;
    kw_tls_session *session;
    int by_host; /* the certificate must be for a host's name */
    int begun;  /* OpenSSL has the socket */
    int failed; /* the error that ended the stream; the next call returns it if bytes came first */
    int ended;  /* the peer closed the stream */
    int failed_verify;
    char problem[KW_REASON_SIZE - 160]; /* with the peer's certificate */
    uint8_t *gathered;
    size_t interrupted; /* bytes of a record of which the socket accepted a part */
} tls_stream;

static tls_stream *of(const kw_stream *stream) { return (tls_stream *)stream; }

/* Return the library for one call on this stream. SSL_get_error reads the error queue of the thread, which all
 * connections share: an error of another connection must not end this one. Peeking costs a tenth of clearing. */
static const kw_openssl *ready(const tls_stream *tls) {
    const kw_openssl *openssl = tls->context->openssl;
    if (openssl->ERR_peek_error()) openssl->ERR_clear_error();
    errno = 0;
    return openssl;
}

/* ---- errors ---- */

/* Read the printed text into `text`, with spaces for line ends. */
static void take_text(const kw_openssl *openssl, BIO *bio, char *text, size_t size) {
    int got = size > 1 ? openssl->BIO_read(bio, text, (int)size - 1) : 0;
    text[got < 0 ? 0 : got] = 0;
    for (; *text; text++)
        if (*text == '\n' || *text == '\r') *text = ' ';
    char rest[64];
    while (openssl->BIO_read(bio, rest, sizeof rest) > 0) continue;
}

static void describe(const kw_openssl *openssl, X509 *certificate, const char *why, char *text, size_t size) {
    char subject[200] = "", issuer[200] = "", from[40] = "", until[40] = "", names[200] = "";
    BIO *bio = openssl->BIO_new(openssl->BIO_s_mem());
    if (!certificate || !bio) {
        snprintf(text, size, "%s", why);
        openssl->BIO_free(bio);
        return;
    }
    openssl->X509_NAME_print_ex(bio, openssl->X509_get_subject_name(certificate), 0, KW_NAME_ONE_LINE);
    take_text(openssl, bio, subject, sizeof subject);
    openssl->X509_NAME_print_ex(bio, openssl->X509_get_issuer_name(certificate), 0, KW_NAME_ONE_LINE);
    take_text(openssl, bio, issuer, sizeof issuer);
    openssl->ASN1_TIME_print(bio, openssl->X509_get0_notBefore(certificate));
    take_text(openssl, bio, from, sizeof from);
    openssl->ASN1_TIME_print(bio, openssl->X509_get0_notAfter(certificate));
    take_text(openssl, bio, until, sizeof until);
    int at = openssl->X509_get_ext_by_NID(certificate, KW_NID_SUBJECT_ALT_NAME, -1);
    if (at >= 0 && openssl->X509V3_EXT_print(bio, openssl->X509_get_ext(certificate, at), 0, 0) == 1)
        take_text(openssl, bio, names, sizeof names);
    openssl->BIO_free(bio);
    snprintf(text, size, "%s (certificate: subject %s; issuer %s; valid from %s until %s; for %s)", why,
             *subject ? subject : "without a name", issuer, from, until, *names ? names : "no host");
}

int kw_tls_on_verify(int ok, X509_STORE_CTX *store) {
    /* (the library is bound: this is one of its callbacks) */
    const kw_openssl *openssl = kw_openssl_bound();
    SSL *ssl = openssl->X509_STORE_CTX_get_ex_data(store, openssl->SSL_get_ex_data_X509_STORE_CTX_idx());
    tls_stream *tls = ssl ? openssl->SSL_get_ex_data(ssl, 0) : NULL;
    if (!ok && tls && !tls->failed_verify) {
        int error = openssl->X509_STORE_CTX_get_error(store);
        tls->failed_verify = 1;
        describe(openssl, openssl->X509_STORE_CTX_get_current_cert(store), openssl->X509_verify_cert_error_string(error),
                 tls->problem, sizeof tls->problem);
    }
    return ok;
}

static const char *alert_name(int alert) {
    static const struct {
        int alert;
        const char *name;
    } names[] = {
        {40, "handshake_failure: no cipher, signature or certificate that both sides accept"},
        {42, "bad_certificate"},
        {43, "unsupported_certificate"},
        {44, "certificate_revoked"},
        {45, "certificate_expired"},
        {46, "certificate_unknown"},
        {48, "unknown_ca: it does not know the issuer of this client's certificate"},
        {49, "access_denied"},
        {70, "protocol_version: it wants another version of TLS"},
        {71, "insufficient_security"},
        {112, "unrecognized_name: it does not serve this host name"},
        {116, "certificate_required: it wants a certificate of this client"},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].alert == alert) return names[i].name;
    return NULL;
}

/* Return the negative errno of a failed operation; fill `reason` if errno does not explain the failure. */
static int explain(tls_stream *tls, int result, int in_handshake) {
    const kw_openssl *openssl = tls->context->openssl;
    int system = errno;
    int kind = openssl->SSL_get_error(tls->ssl, result);
    kw_stream *stream = &tls->stream;
    size_t size = sizeof stream->reason;
    if (kind == KW_ERROR_WANT_READ || kind == KW_ERROR_WANT_WRITE) {
        stream->wants_write = kind == KW_ERROR_WANT_WRITE;
        return -EAGAIN;
    }
    unsigned long error = openssl->ERR_peek_error();
    /* Each library of OpenSSL numbers its reasons separately. */
    int why = (error >> KW_LIBRARY_SHIFT & KW_LIBRARY_MASK) == KW_LIBRARY_SSL ? (int)(error & KW_REASON_MASK) : 0;
    if (kind == KW_ERROR_ZERO_RETURN || (kind == KW_ERROR_SSL && why == KW_REASON_UNEXPECTED_EOF) ||
        (kind == KW_ERROR_SYSCALL && !system)) {
        openssl->ERR_clear_error();
        if (in_handshake) snprintf(stream->reason, size, "the peer closed the connection during the TLS handshake");
        /* Java's brokers are often killed before they send a close_notify: only a truncated frame is an error. */
        else if (kind != KW_ERROR_ZERO_RETURN) snprintf(stream->reason, size, " without a TLS close_notify");
        tls->ended = 1;
        return -EPIPE;
    }
    if (kind == KW_ERROR_SYSCALL) {
        openssl->ERR_clear_error();
        return -system;
    }
    if (tls->failed_verify && why == KW_REASON_VERIFY_FAILED) {
        snprintf(stream->reason, size, "the certificate of the broker is not accepted: %s", tls->problem);
        openssl->ERR_clear_error();
        return -KW_NOT_AUTHENTICATED;
    }
    if (why > KW_REASON_ALERT && why < KW_REASON_ALERT + 256) {
        int alert = why - KW_REASON_ALERT;
        const char *name = alert_name(alert);
        snprintf(stream->reason, size, "the broker ended TLS by alert %d, %s", alert,
                 name ? name : openssl->ERR_reason_error_string(error));
        openssl->ERR_clear_error();
        return name ? -KW_NOT_AUTHENTICATED : -EPROTO;
    }
    if (in_handshake && why == KW_REASON_WRONG_VERSION_NUMBER) {
        snprintf(stream->reason, size, "no TLS is spoken there: the first bytes are none of TLS");
        openssl->ERR_clear_error();
        return -EPROTONOSUPPORT;
    }
    char text[160];
    kw_tls_explain(openssl, text, sizeof text);
    snprintf(stream->reason, size, "TLS failed: %s", text);
    return -EPROTO;
}

/* ---- the stream ---- */

static int begin(tls_stream *tls, int fd) {
    const kw_openssl *openssl = ready(tls);
    tls->begun = 1;
    if (openssl->SSL_set_fd(tls->ssl, fd) != 1) return -ENOMEM;
    if (tls->session) {
        pthread_mutex_lock(&tls->context->lock);
        if (tls->session->session) openssl->SSL_set_session(tls->ssl, tls->session->session);
        pthread_mutex_unlock(&tls->context->lock);
    }
    openssl->SSL_set_connect_state(tls->ssl);
    return 0;
}

/* Note a certificate that names no host and was accepted by its common name, as by Java and librdkafka. */
static void note_common_name(tls_stream *tls) {
    const kw_openssl *openssl = tls->context->openssl;
    unsigned int names_only = KW_NO_PARTIAL_WILDCARDS | KW_NEVER_CHECK_SUBJECT;
    X509 *certificate = openssl->SSL_get1_peer_certificate(tls->ssl);
    if (certificate && openssl->X509_check_host(certificate, tls->session->host, 0, names_only, NULL) != 1) {
        BIO *bio = openssl->BIO_new(openssl->BIO_s_mem());
        if (bio) {
            openssl->X509_NAME_print_ex(bio, openssl->X509_get_subject_name(certificate), 0, KW_NAME_ONE_LINE);
            pthread_mutex_lock(&tls->context->lock);
            take_text(openssl, bio, tls->context->common_name, sizeof tls->context->common_name);
            pthread_mutex_unlock(&tls->context->lock);
            openssl->BIO_free(bio);
        }
    }
    openssl->X509_free(certificate);
}

static int tls_handshake(kw_stream *stream, int fd) {
    tls_stream *tls = of(stream);
    if (!tls->begun && begin(tls, fd)) return -ENOMEM;
    const kw_openssl *openssl = ready(tls);
    int result = openssl->SSL_do_handshake(tls->ssl);
    if (result != 1) return explain(tls, result, 1);
    stream->wants_write = 0;
    kw_tls_statistics *statistics = &tls->context->statistics;
    __atomic_fetch_add(&statistics->handshakes, 1, __ATOMIC_RELAXED);
    if (openssl->SSL_session_reused(tls->ssl))
        __atomic_fetch_add(&statistics->resumed, 1, __ATOMIC_RELAXED);
    else if (tls->by_host && tls->session)
        note_common_name(tls);
    if (openssl->BIO_ctrl(openssl->SSL_get_wbio(tls->ssl), KW_BIO_KTLS_SEND, 0, NULL) > 0)
        __atomic_fetch_add(&statistics->kernel, 1, __ATOMIC_RELAXED);
    return 0;
}

/* Return up to one record of the remaining bytes, without a copy if the next slice fills a record. An interrupted
 * record is offered again unchanged: with more bytes after it, OpenSSL would send the first bytes, and report that it
 * sent none if the socket does not accept the others. */
static size_t next_record(tls_stream *tls, const struct iovec *slices, int count, size_t offset, const void **data) {
    size_t limit = tls->interrupted ? tls->interrupted : RECORD;
    if (count == 1 || slices->iov_len - offset >= limit) {
        size_t left = slices->iov_len - offset;
        *data = (const uint8_t *)slices->iov_base + offset;
        return left < limit ? left : limit;
    }
    size_t size = 0;
    for (; count && size < limit; slices++, count--, offset = 0) {
        size_t some = slices->iov_len - offset;
        if (some > limit - size) some = limit - size;
        memcpy(tls->gathered + size, (const uint8_t *)slices->iov_base + offset, some);
        size += some;
    }
    *data = tls->gathered;
    return size;
}

static ssize_t tls_send(kw_stream *stream, int fd, struct iovec *slices, int count) {
    tls_stream *tls = of(stream);
    ssize_t total = 0;
    size_t offset = 0;
    (void)fd;
    if (tls->failed) return tls->failed;
    if (tls->ended) return -EPIPE;
    if (!tls->gathered && !(tls->gathered = malloc(RECORD))) return -ENOMEM;
    while (count) {
        const void *data;
        size_t size = next_record(tls, slices, count, offset, &data), written = 0;
        int result = ready(tls)->SSL_write_ex(tls->ssl, data, size, &written);
        if (result != 1) {
            int waits = stream->wants_write;
            int error = explain(tls, result, 0);
            stream->wants_write = waits; /* it belongs to receiving; a sender waits for that anyway */
            if (error == -EAGAIN)
                tls->interrupted = size;
            else
                tls->failed = error;
            return total ? total : error;
        }
        tls->interrupted = 0;
        total += (ssize_t)written;
        for (offset += written; count && offset >= slices->iov_len; slices++, count--) offset -= slices->iov_len;
    }
    return total;
}

static ssize_t tls_receive(kw_stream *stream, int fd, void *data, size_t size) {
    tls_stream *tls = of(stream);
    size_t total = 0;
    (void)fd;
    if (tls->failed) return tls->failed;
    if (tls->ended) return 0;
    stream->wants_write = 0;
    while (total < size) {
        size_t got = 0;
        int result = ready(tls)->SSL_read_ex(tls->ssl, (uint8_t *)data + total, size - total, &got);
        if (result != 1) {
            int error = explain(tls, result, 0);
            if (error == -EPIPE && tls->ended) error = 0;
            if (error && error != -EAGAIN) tls->failed = error;
            return total ? (ssize_t)total : error;
        }
        total += got;
    }
    return (ssize_t)total;
}

static int tls_has_more(const kw_stream *stream) {
    const tls_stream *tls = of(stream);
    return tls->failed || tls->ended || tls->context->openssl->SSL_has_pending(tls->ssl);
}

static void tls_end(kw_stream *stream, int fd) {
    tls_stream *tls = of(stream);
    (void)fd;
    if (tls->failed || tls->ended) return;
    ready(tls)->SSL_shutdown(tls->ssl);
}

static void tls_free(kw_stream *stream) {
    tls_stream *tls = of(stream);
    tls->context->openssl->SSL_free(tls->ssl);
    kw_tls_context_unref(tls->context);
    free(tls->gathered);
    free(tls);
}

static const kw_stream_operations TLS = {
    tls_handshake, tls_send, tls_receive, tls_has_more, tls_end, tls_free,
};

/* OpenSSL transfers one reference if this callback returns 1. */
int kw_tls_keep_session(SSL *ssl, SSL_SESSION *session) {
    const kw_openssl *openssl = kw_openssl_bound();
    tls_stream *tls = openssl->SSL_get_ex_data(ssl, 0);
    if (!tls || !tls->session) return 0;
    pthread_mutex_lock(&tls->context->lock);
    SSL_SESSION *before = tls->session->session;
    tls->session->session = session;
    pthread_mutex_unlock(&tls->context->lock);
    if (before) openssl->SSL_SESSION_free(before);
    return 1;
}

kw_stream *kw_tls_stream_new(kw_tls_context *context, const char *host, int is_address, int port) {
    const kw_openssl *openssl = context->openssl;
    tls_stream *tls = calloc(1, sizeof *tls);
    if (!tls) return NULL;
    tls->stream.do_ = &TLS;
    tls->context = kw_tls_context_ref(context);
    tls->ssl = openssl->SSL_new(context->ssl);
    int made = tls->ssl && openssl->SSL_set_ex_data(tls->ssl, 0, tls) == 1;
    if (made && !is_address) made = openssl->SSL_ctrl(tls->ssl, KW_CTRL_HOST_NAME, 0, (void *)host) == 1;
    if (made && context->verify_name) {
        X509_VERIFY_PARAM *parameters = openssl->SSL_get0_param(tls->ssl);
        openssl->X509_VERIFY_PARAM_set_hostflags(parameters, KW_NO_PARTIAL_WILDCARDS);
        made = is_address ? openssl->X509_VERIFY_PARAM_set1_ip_asc(parameters, host)
                          : openssl->X509_VERIFY_PARAM_set1_host(parameters, host, 0);
    }
    tls->by_host = context->verify_name && !is_address;
    tls->session = made ? kw_tls_session_of(context, host, port) : NULL;
    openssl->ERR_clear_error();
    if (made) return &tls->stream;
    tls_free(&tls->stream);
    return NULL;
}
