# distutils: sources = kafwire/security/native/openssl.c kafwire/security/native/tls.c kafwire/security/native/context.c
"""TLS in the native I/O thread, by the libssl that the interpreter has loaded. `native/tls.h` is the contract.

This file converts. What the texts are, and where they come from, is `tls.py`'s business.
"""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint64_t
from libc.stdlib cimport calloc, free

from kafwire.runtime._interfaces cimport StreamSource, kw_stream

from importlib import import_module


cdef extern from "kafwire/security/native/openssl.h" nogil:
    ctypedef struct kw_openssl:
        const char *(*OpenSSL_version)(int what)
        const char *(*ERR_reason_error_string)(unsigned long error)
    enum:
        KW_TLS_1_2
        KW_TLS_1_3
    const kw_openssl *kw_openssl_bind(int version, const char **why)

cdef extern from "kafwire/security/native/tls.h" nogil:
    enum:
        KW_REASON_SIZE
        KW_TLS_MEMORY
        KW_TLS_TRUSTED
        KW_TLS_CERTIFICATES
        KW_TLS_KEY
        KW_TLS_KEY_PASSWORD
        KW_TLS_KEY_MATCH
        KW_TLS_REVOKED
        KW_TLS_CIPHERS
        KW_TLS_VERSIONS
        KW_TLS_KEY_LOCKED
        KW_TLS_ENCRYPTION
    ctypedef struct kw_tls_context:
        pass
    ctypedef struct kw_pem:
        const char *data
        size_t size
    ctypedef struct kw_pem_object:
        kw_pem text
        unsigned long error
    ctypedef struct kw_pem_objects:
        kw_pem_object *each
        size_t count
    ctypedef struct kw_tls_settings:
        kw_pem_objects trusted
        kw_pem_objects certificates
        kw_pem key
        kw_pem password
        kw_pem_objects revoked
        const char *ciphers
        const char *suites
        int min_version
        int max_version
        int verify
        int verify_name
        int kernel
    ctypedef struct kw_tls_statistics:
        uint64_t handshakes
        uint64_t resumed
        uint64_t kernel
    kw_tls_context *kw_tls_context_new(
        const kw_openssl *openssl, const kw_tls_settings *settings, int *problem, char *reason)
    void kw_tls_context_unref(kw_tls_context *context)
    int kw_tls_allows_kernel(const kw_tls_context *context)
    int kw_tls_take_common_name(kw_tls_context *context, char *subject)
    void kw_tls_get_statistics(const kw_tls_context *context, kw_tls_statistics *statistics)
    kw_stream *kw_tls_stream_new(kw_tls_context *context, const char *host, int is_address, int port)
    int kw_tls_read_pkcs12(
        const kw_openssl *openssl, const void *data, size_t size, const char *password, char **key,
        char **certificates, char *reason)


PROBLEMS = {
    KW_TLS_MEMORY: "memory",
    KW_TLS_TRUSTED: "trusted",
    KW_TLS_CERTIFICATES: "certificates",
    KW_TLS_KEY: "key",
    KW_TLS_KEY_PASSWORD: "key_password",
    KW_TLS_KEY_MATCH: "key_match",
    KW_TLS_REVOKED: "revoked",
    KW_TLS_CIPHERS: "ciphers",
    KW_TLS_VERSIONS: "versions",
    KW_TLS_KEY_LOCKED: "key_locked",
    KW_TLS_ENCRYPTION: "encryption",
}


class UnusableSettings(Exception):
    """`part` is one of PROBLEMS, `reason` is OpenSSL's text."""

    part = reason = ""

    def __init__(self, part, reason):
        super().__init__(part, reason)
        self.part = part
        self.reason = reason


cdef const kw_openssl *bind() except NULL:
    cdef const char *why = b""
    # The extension of the module ssl loads libssl into the process, if libssl is a shared library.
    ssl = import_module("ssl")
    cdef const kw_openssl *openssl = kw_openssl_bind(ssl.OPENSSL_VERSION_INFO[0], &why)
    if openssl is NULL:
        raise LookupError((<bytes> why).decode())
    return openssl


def library():
    """Return the version text of the OpenSSL in use.

    Raises LookupError, with the reason, if there is none to use.
    """
    return (<bytes> bind().OpenSSL_version(0)).decode()


def read_pkcs12(bytes data not None, bytes password not None):
    """Return (private key, certificates) as PEM, the client's own certificate first. Raises `UnusableSettings`."""
    cdef const kw_openssl *openssl = bind()
    cdef char reason[KW_REASON_SIZE]
    cdef char *key
    cdef char *certificates
    cdef int problem = kw_tls_read_pkcs12(
        openssl, PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data), PyBytes_AS_STRING(password), &key, &certificates,
        reason)
    try:
        if problem:
            raise UnusableSettings(PROBLEMS[problem], (<bytes> reason).decode("utf-8", "replace"))
        return <bytes> key, <bytes> certificates
    finally:
        free(key)
        free(certificates)


cdef kw_pem pem_of(bytes text) noexcept:
    cdef kw_pem result
    result.data = NULL if text is None else PyBytes_AS_STRING(text)
    result.size = 0 if text is None else PyBytes_GET_SIZE(text)
    return result


cdef int fill(kw_pem_objects *objects, given) except -1:
    cdef size_t at
    cdef tuple texts = (given,) if isinstance(given, bytes) else given
    objects.each = NULL
    objects.count = 0
    if not texts:
        return 0
    objects.each = <kw_pem_object *> calloc(len(texts), sizeof(kw_pem_object))
    if objects.each is NULL:
        raise MemoryError("no memory for certificates")
    objects.count = len(texts)
    for at in range(objects.count):
        objects.each[at].text = pem_of(texts[at])
    return 0


cdef list unusable(const kw_openssl *openssl, str part, const kw_pem_objects *objects):
    cdef size_t at
    cdef const char *reason
    found = []
    for at in range(objects.count):
        if objects.each[at].error:
            reason = openssl.ERR_reason_error_string(objects.each[at].error)
            found.append((part, at, "no reason is known" if reason is NULL else (<bytes> reason).decode()))
    return found


@cython.final
@cython.auto_pickle(False)
cdef class Context:
    """The shared state of all connections of one configuration: keys, trust, and the sessions that can be resumed.

    Texts are PEM, one object each, or a tuple of them. None means none; for `trusted`, the system's trust store.
    `unreadable` has (part, index, reason) of objects that were left out. `versions` are 2 and 3 for TLS 1.2
    and 1.3, lowest and highest. Raises `UnusableSettings`, or LookupError if there is no OpenSSL to use.
    """

    cdef kw_tls_context *context
    cdef object __weakref__
    cdef readonly tuple unreadable

    def __cinit__(
        self, *, trusted=None, certificates=None, bytes key=None, bytes password=None,
        revoked=None, bytes ciphers=None, bytes suites=None, tuple versions=(2, 3), bint verify=True,
        bint verify_name=True, bint kernel=False,
    ):
        cdef kw_tls_settings settings
        cdef char reason[KW_REASON_SIZE]
        cdef int problem = 0
        settings.key = pem_of(key)
        settings.password = pem_of(password)
        settings.ciphers = NULL if ciphers is None else PyBytes_AS_STRING(ciphers)
        settings.suites = NULL if suites is None else PyBytes_AS_STRING(suites)
        settings.min_version = KW_TLS_1_2 if versions[0] == 2 else KW_TLS_1_3
        settings.max_version = KW_TLS_1_2 if versions[1] == 2 else KW_TLS_1_3
        settings.verify = verify
        settings.verify_name = verify_name
        settings.kernel = kernel
        cdef const kw_openssl *openssl = bind()
        for part, texts in (("trusted", trusted), ("certificates", certificates), ("revoked", revoked)):
            if texts is not None and not texts:  # an empty tuple must not mean the system's trust store
                raise UnusableSettings(part, "there is none")
        settings.trusted.each = settings.certificates.each = settings.revoked.each = NULL
        try:
            fill(&settings.trusted, trusted)
            fill(&settings.certificates, certificates)
            fill(&settings.revoked, revoked)
            self.context = kw_tls_context_new(openssl, &settings, &problem, reason)
            if self.context is NULL:
                raise UnusableSettings(PROBLEMS[problem], (<bytes> reason).decode("utf-8", "replace"))
            self.unreadable = tuple(
                unusable(openssl, "trusted", &settings.trusted)
                + unusable(openssl, "certificates", &settings.certificates)
                + unusable(openssl, "revoked", &settings.revoked))
        finally:
            free(settings.trusted.each)
            free(settings.certificates.each)
            free(settings.revoked.each)

    def __dealloc__(self):
        kw_tls_context_unref(self.context)

    def source(self, str host not None, bint is_address, int port):
        """Return the TLS to one server, whose certificate must be for `host`, a name or a numeric address."""
        return TlsSource(self, host.encode("ascii" if is_address else "idna"), is_address, port)

    @property
    def allows_kernel(self):
        """True if the kernel may encrypt, if it can (kTLS)."""
        return bool(kw_tls_allows_kernel(self.context))

    def take_common_name(self):
        """Return the subject of a certificate accepted by its common name since the last call; None without one."""
        cdef char subject[KW_REASON_SIZE]
        if not kw_tls_take_common_name(self.context, subject):
            return None
        return (<bytes> subject).decode("utf-8", "replace")

    def statistics(self):
        """Return the numbers of successful handshakes, of resumed sessions, and of connections with kernel TLS."""
        cdef kw_tls_statistics now
        kw_tls_get_statistics(self.context, &now)
        return {"handshakes": now.handshakes, "resumed": now.resumed, "kernel": now.kernel}


@cython.final
@cython.auto_pickle(False)
cdef class TlsSource(StreamSource):
    """Makes the streams of connections to one server."""

    cdef Context context
    cdef bytes host
    cdef bint is_address
    cdef int port

    def __cinit__(self, Context context not None, bytes host not None, bint is_address, int port):
        self.context = context
        self.host = host
        self.is_address = is_address
        self.port = port

    cdef kw_stream *new_stream(self) except NULL:
        cdef kw_stream *stream = kw_tls_stream_new(
            self.context.context, PyBytes_AS_STRING(self.host), self.is_address, self.port)
        if stream is NULL:
            raise MemoryError("no memory for a TLS connection")
        return stream
