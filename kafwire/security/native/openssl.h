/* libssl and libcrypto 3 or 4, bound at run time: what TLS needs of them, by names and types of their documentation.
 *
 * No header of OpenSSL is needed to build, and none of its libraries to import: the interpreter's module `ssl` has loaded
 * the ones that are used. Types are opaque; numbers are those of OpenSSL 3's headers, which are part of its ABI, and
 * the same in 4. */
#ifndef KAFWIRE_OPENSSL_H
#define KAFWIRE_OPENSSL_H

#include <stddef.h>
#include <stdint.h>

typedef struct ssl_st SSL;
typedef struct ssl_ctx_st SSL_CTX;
typedef struct ssl_method_st SSL_METHOD;
typedef struct ssl_session_st SSL_SESSION;
typedef struct ssl_cipher_st SSL_CIPHER;
typedef struct bio_st BIO;
typedef struct bio_method_st BIO_METHOD;
typedef struct x509_st X509;
typedef struct X509_crl_st X509_CRL;
typedef struct X509_name_st X509_NAME;
typedef struct X509_extension_st X509_EXTENSION;
typedef struct x509_store_st X509_STORE;
typedef struct x509_store_ctx_st X509_STORE_CTX;
typedef struct X509_VERIFY_PARAM_st X509_VERIFY_PARAM;
typedef struct evp_pkey_st EVP_PKEY;
typedef struct evp_cipher_st EVP_CIPHER;
typedef struct asn1_string_st ASN1_TIME;
typedef struct PKCS12_st PKCS12;
typedef struct stack_st OPENSSL_STACK;

typedef int verify_callback(int ok, X509_STORE_CTX *store);
typedef int session_callback(SSL *ssl, SSL_SESSION *session);
typedef int password_callback(char *buffer, int size, int writing, void *data);

/* result, name, arguments */
#define KW_SSL_FUNCTIONS(F)                                                                                            \
    F(const SSL_METHOD *, TLS_client_method, (void))                                                                   \
    F(SSL_CTX *, SSL_CTX_new, (const SSL_METHOD *))                                                                    \
    F(void, SSL_CTX_free, (SSL_CTX *))                                                                                 \
    F(long, SSL_CTX_ctrl, (SSL_CTX *, int, long, void *))                                                              \
    F(uint64_t, SSL_CTX_set_options, (SSL_CTX *, uint64_t))                                                            \
    F(uint64_t, SSL_CTX_get_options, (const SSL_CTX *))                                                                \
    F(void, SSL_CTX_set_verify, (SSL_CTX *, int, verify_callback *))                                                   \
    F(int, SSL_CTX_set_cipher_list, (SSL_CTX *, const char *))                                                         \
    F(int, SSL_CTX_set_ciphersuites, (SSL_CTX *, const char *))                                                        \
    F(X509_STORE *, SSL_CTX_get_cert_store, (const SSL_CTX *))                                                         \
    F(int, SSL_CTX_set_default_verify_paths, (SSL_CTX *))                                                              \
    F(int, SSL_CTX_use_certificate, (SSL_CTX *, X509 *))                                                               \
    F(int, SSL_CTX_use_PrivateKey, (SSL_CTX *, EVP_PKEY *))                                                            \
    F(int, SSL_CTX_check_private_key, (const SSL_CTX *))                                                               \
    F(void, SSL_CTX_sess_set_new_cb, (SSL_CTX *, session_callback *))                                                  \
    F(void, SSL_CTX_set_default_read_buffer_len, (SSL_CTX *, size_t))                                                  \
    F(SSL *, SSL_new, (SSL_CTX *))                                                                                     \
    F(void, SSL_free, (SSL *))                                                                                         \
    F(int, SSL_set_fd, (SSL *, int))                                                                                   \
    F(long, SSL_ctrl, (SSL *, int, long, void *))                                                                      \
    F(X509_VERIFY_PARAM *, SSL_get0_param, (SSL *))                                                                    \
    F(int, SSL_set_session, (SSL *, SSL_SESSION *))                                                                    \
    F(void, SSL_SESSION_free, (SSL_SESSION *))                                                                         \
    F(void, SSL_set_connect_state, (SSL *))                                                                            \
    F(int, SSL_do_handshake, (SSL *))                                                                                  \
    F(int, SSL_read_ex, (SSL *, void *, size_t, size_t *))                                                             \
    F(int, SSL_write_ex, (SSL *, const void *, size_t, size_t *))                                                      \
    F(int, SSL_shutdown, (SSL *))                                                                                      \
    F(int, SSL_get_error, (const SSL *, int))                                                                          \
    F(int, SSL_has_pending, (const SSL *))                                                                             \
    F(const char *, SSL_get_version, (const SSL *))                                                                    \
    F(X509 *, SSL_get1_peer_certificate, (const SSL *))                                                                \
    F(const SSL_CIPHER *, SSL_get_current_cipher, (const SSL *))                                                       \
    F(const char *, SSL_CIPHER_get_name, (const SSL_CIPHER *))                                                         \
    F(int, SSL_session_reused, (const SSL *))                                                                          \
    F(BIO *, SSL_get_rbio, (const SSL *))                                                                              \
    F(BIO *, SSL_get_wbio, (const SSL *))                                                                              \
    F(int, SSL_set_ex_data, (SSL *, int, void *))                                                                      \
    F(void *, SSL_get_ex_data, (const SSL *, int))                                                                     \
    F(int, SSL_get_ex_data_X509_STORE_CTX_idx, (void))

#define KW_CRYPTO_FUNCTIONS(F)                                                                                         \
    F(unsigned long, OpenSSL_version_num, (void))                                                                      \
    F(const char *, OpenSSL_version, (int))                                                                            \
    F(BIO *, BIO_new, (const BIO_METHOD *))                                                                            \
    F(BIO *, BIO_new_mem_buf, (const void *, int))                                                                     \
    F(const BIO_METHOD *, BIO_s_mem, (void))                                                                           \
    F(int, BIO_read, (BIO *, void *, int))                                                                             \
    F(long, BIO_ctrl, (BIO *, int, long, void *))                                                                      \
    F(int, BIO_free, (BIO *))                                                                                          \
    F(X509 *, PEM_read_bio_X509, (BIO *, X509 **, password_callback *, void *))                                        \
    F(X509_CRL *, PEM_read_bio_X509_CRL, (BIO *, X509_CRL **, password_callback *, void *))                            \
    F(EVP_PKEY *, PEM_read_bio_PrivateKey, (BIO *, EVP_PKEY **, password_callback *, void *))                          \
    F(int, PEM_write_bio_X509, (BIO *, const X509 *))                                                                  \
    F(int, PEM_write_bio_PrivateKey,                                                                                   \
      (BIO *, const EVP_PKEY *, const EVP_CIPHER *, const unsigned char *, int, password_callback *, void *))          \
    F(PKCS12 *, d2i_PKCS12_bio, (BIO *, PKCS12 **))                                                                    \
    F(int, PKCS12_parse, (PKCS12 *, const char *, EVP_PKEY **, X509 **, OPENSSL_STACK **))                             \
    F(void, PKCS12_free, (PKCS12 *))                                                                                   \
    F(int, OPENSSL_sk_num, (const OPENSSL_STACK *))                                                                    \
    F(void *, OPENSSL_sk_value, (const OPENSSL_STACK *, int))                                                          \
    F(void, OPENSSL_sk_free, (OPENSSL_STACK *))                                                                        \
    F(int, X509_STORE_add_cert, (X509_STORE *, X509 *))                                                                \
    F(int, X509_STORE_add_crl, (X509_STORE *, X509_CRL *))                                                             \
    F(int, X509_STORE_set_flags, (X509_STORE *, unsigned long))                                                        \
    F(void, X509_free, (X509 *))                                                                                       \
    F(void, X509_CRL_free, (X509_CRL *))                                                                               \
    F(void, EVP_PKEY_free, (EVP_PKEY *))                                                                               \
    F(X509_NAME *, X509_get_subject_name, (const X509 *))                                                              \
    F(X509_NAME *, X509_get_issuer_name, (const X509 *))                                                               \
    F(int, X509_NAME_print_ex, (BIO *, const X509_NAME *, int, unsigned long))                                         \
    F(const ASN1_TIME *, X509_get0_notBefore, (const X509 *))                                                          \
    F(const ASN1_TIME *, X509_get0_notAfter, (const X509 *))                                                           \
    F(int, ASN1_TIME_print, (BIO *, const ASN1_TIME *))                                                                \
    F(int, X509_get_ext_by_NID, (const X509 *, int, int))                                                              \
    F(X509_EXTENSION *, X509_get_ext, (const X509 *, int))                                                             \
    F(int, X509V3_EXT_print, (BIO *, X509_EXTENSION *, unsigned long, int))                                            \
    F(int, X509_VERIFY_PARAM_set1_host, (X509_VERIFY_PARAM *, const char *, size_t))                                   \
    F(int, X509_VERIFY_PARAM_set1_ip_asc, (X509_VERIFY_PARAM *, const char *))                                         \
    F(void, X509_VERIFY_PARAM_set_hostflags, (X509_VERIFY_PARAM *, unsigned int))                                      \
    F(int, X509_check_host, (X509 *, const char *, size_t, unsigned int, char **))                                     \
    F(const char *, X509_verify_cert_error_string, (long))                                                             \
    F(int, X509_STORE_CTX_get_error, (const X509_STORE_CTX *))                                                         \
    F(X509 *, X509_STORE_CTX_get_current_cert, (const X509_STORE_CTX *))                                               \
    F(void *, X509_STORE_CTX_get_ex_data, (const X509_STORE_CTX *, int))                                               \
    F(unsigned long, ERR_get_error, (void))                                                                            \
    F(unsigned long, ERR_peek_error, (void))                                                                           \
    F(const char *, ERR_reason_error_string, (unsigned long))                                                          \
    F(void, ERR_clear_error, (void))

#define KW_DECLARE(result, name, arguments) result(*name) arguments;
typedef struct kw_openssl {
    KW_SSL_FUNCTIONS(KW_DECLARE)
    KW_CRYPTO_FUNCTIONS(KW_DECLARE)
} kw_openssl;
#undef KW_DECLARE

enum {
    KW_VERIFY_NONE = 0,
    KW_VERIFY_PEER = 1,
    KW_MODE_PARTIAL_WRITE = 1,
    KW_MODE_MOVING_BUFFER = 2,
    KW_MODE_RELEASE_BUFFERS = 0x10,
    KW_CTRL_MODE = 33,
    KW_CTRL_READ_AHEAD = 41,
    KW_CTRL_SESSION_CACHE = 44,
    KW_CTRL_HOST_NAME = 55,
    KW_CTRL_CHAIN_CERTIFICATE = 89,
    KW_CTRL_MIN_VERSION = 123,
    KW_CTRL_MAX_VERSION = 124,
    KW_CACHE_CLIENT = 1,
    KW_CACHE_NOT_INTERNAL = 0x300,
    KW_TLS_1_2 = 0x0303,
    KW_TLS_1_3 = 0x0304,
    KW_ERROR_SSL = 1,
    KW_ERROR_WANT_READ = 2,
    KW_ERROR_WANT_WRITE = 3,
    KW_ERROR_SYSCALL = 5,
    KW_ERROR_ZERO_RETURN = 6,
    KW_BIO_PENDING = 10,
    KW_BIO_KTLS_SEND = 73,
    KW_BIO_KTLS_RECEIVE = 76,
    KW_CRL_CHECK = 4,
    KW_PARTIAL_CHAIN = 0x80000,
    KW_NO_PARTIAL_WILDCARDS = 4,
    KW_NEVER_CHECK_SUBJECT = 0x20,
    KW_NID_SUBJECT_ALT_NAME = 85,
    KW_HOST_MISMATCH = 62,
    KW_IP_MISMATCH = 64,
    KW_REASON_MASK = 0x7FFFFF,
    KW_LIBRARY_SHIFT = 23,
    KW_LIBRARY_MASK = 0xFF,
    KW_LIBRARY_SSL = 20,
    KW_LIBRARY_EVP = 6,
    KW_LIBRARY_PKCS12 = 35,
    KW_LIBRARY_PROVIDER = 57,
    KW_REASON_UNSUPPORTED = 0x8010C,  /* of any library */
    KW_REASON_BAD_DECRYPT = 100,      /* of a provider */
    KW_REASON_NO_MAC = 108,           /* of PKCS#12, and reported together with the next one */
    KW_REASON_BAD_MAC = 113,
    KW_REASON_VERIFY_FAILED = 134,
    KW_REASON_WRONG_VERSION_NUMBER = 267,
    KW_REASON_UNEXPECTED_EOF = 294,
    KW_REASON_ALERT = 1000, /* and the alert's number (RFC 8446, section 6) */
};
#define KW_OP_NO_COMPRESSION ((uint64_t)1 << 17)
#define KW_OP_NO_RENEGOTIATION ((uint64_t)1 << 30)
#define KW_OP_ENABLE_KTLS ((uint64_t)1 << 3)
/* One line, names in short, UTF-8 as it is. */
#define KW_NAME_ONE_LINE 0x20313UL

enum { KW_OLDEST_OPENSSL = 3, KW_NEWEST_OPENSSL = 4 };

/* Returns the loaded library of this major version, that of the module `ssl`, or NULL and why: a package may have
 * brought another version into the process. Bound once in a process; any thread that holds the GIL. */
const kw_openssl *kw_openssl_bind(int version, const char **why);

/* The bound library, for its own callbacks: any thread. */
const kw_openssl *kw_openssl_bound(void);

#endif
