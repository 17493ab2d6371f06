/* decoder: its lines are counted by scripts/coverage.py */
#include "kafwire/records/native/crc32c.h"

#include "kafwire/memory/native/bytes.h"
#include "kafwire/records/native/crc_table.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define KW_CRC_X86 1
#include <cpuid.h>
#include <immintrin.h>
#elif defined(__aarch64__) && defined(__GNUC__)
#define KW_CRC_ARM 1
#if defined(__linux__)
#include <sys/auxv.h>
#ifndef HWCAP_CRC32
#define HWCAP_CRC32 (1 << 7)
#endif
#endif
#endif

enum { POLYNOMIAL = (int)0x82F63B78u };

static const uint32_t table[8][256] = {
    KW_CRC_TABLE(0x82F63B78, 0x417B1DBC, 0x20BD8EDE, 0x105EC76F, 0x8AD958CF, 0xC79A971F, 0xE13B70F7, 0xF26B8303),
    KW_CRC_TABLE(0xFBC3FAF9, 0xFF17C604, 0x7F8BE302, 0x3FC5F181, 0x9D14C3B8, 0x4E8A61DC, 0x274530EE, 0x13A29877),
    KW_CRC_TABLE(0x8B277743, 0xC76580D9, 0xE144FB14, 0x70A27D8A, 0x38513EC5, 0x9EDEA41A, 0x4F6F520D, 0xA541927E),
    KW_CRC_TABLE(0x52A0C93F, 0xABA65FE7, 0xD725148B, 0xE964B13D, 0xF64463E6, 0x7B2231F3, 0xBF672381, 0xDD45AAB8),
    KW_CRC_TABLE(0x6EA2D55C, 0x37516AAE, 0x1BA8B557, 0x8F2261D3, 0xC5670B91, 0xE045BEB0, 0x7022DF58, 0x38116FAC),
    KW_CRC_TABLE(0x1C08B7D6, 0x0E045BEB, 0x85F4168D, 0xC00C303E, 0x6006181F, 0xB2F53777, 0xDB8CA0C3, 0xEF306B19),
    KW_CRC_TABLE(0xF56E0EF4, 0x7AB7077A, 0x3D5B83BD, 0x9C5BFAA6, 0x4E2DFD53, 0xA5E0C5D1, 0xD0065990, 0x68032CC8),
    KW_CRC_TABLE(0x34019664, 0x1A00CB32, 0x0D006599, 0x847609B4, 0x423B04DA, 0x211D826D, 0x9278FA4E, 0x493C7D27),
};

/* Written once, by the constructor, and only read afterwards. */
static uint32_t shift_long, shift_long_twice, shift_short, shift_short_twice;

typedef uint32_t (*crc_function)(uint32_t, const uint8_t *, size_t);
static struct {
    const char *name;
    crc_function run;
} implementations[3];
static int implementation_count;

/* Slice-by-8: eight table look-ups for eight bytes, independent of each other. */
static uint32_t crc_table(uint32_t crc, const uint8_t *p, size_t n) {
    crc = ~crc;
    for (; n >= 8; p += 8, n -= 8) {
        uint32_t low = crc ^ kw_le32(p);
        crc = table[7][low & 255] ^ table[6][low >> 8 & 255] ^ table[5][low >> 16 & 255] ^ table[4][low >> 24] ^
              table[3][p[4]] ^ table[2][p[5]] ^ table[1][p[6]] ^ table[0][p[7]];
    }
    while (n--) crc = crc >> 8 ^ table[0][(crc ^ *p++) & 255];
    return ~crc;
}

/* a * b modulo the polynomial, both reflected: bit 31 is x^0. */
static uint32_t multiply(uint32_t a, uint32_t b) {
    uint32_t product = 0;
    for (; a; a <<= 1) {
        if (a & 0x80000000u) product ^= b;
        b = b >> 1 ^ (b & 1 ? (uint32_t)POLYNOMIAL : 0);
    }
    return product;
}

/* x^n modulo the polynomial, reflected. */
static uint32_t power_of_x(uint64_t n) {
    uint32_t result = 0x80000000u, square = 0x40000000u;
    for (; n; n >>= 1) {
        if (n & 1) result = multiply(result, square);
        square = multiply(square, square);
    }
    return result;
}

/* One CRC instruction has a latency of three cycles and a throughput of one: three independent streams over
 * neighbouring thirds keep the unit busy. Joining them means shifting the first by two thirds' worth of zero bytes and
 * the second by one, a multiplication by a constant power of x. LONG thirds amortise it over large input, SHORT ones
 * over a few hundred bytes. STEP is the instruction, JOIN the multiplication. */
enum { LONG = 2048, SHORT = 128 };

/* A frame that another core has just received is not in this one's cache, and the processor guesses badly where three
 * streams go on: asking for the next round's bytes early, wherever they lie, makes that more than twice as fast. */
#define KW_CRC_THREE_WAY(THIRD, ONE, TWO)                                                                      \
    while (n >= 3 * THIRD) {                                                                                   \
        uint64_t b = 0, c = 0;                                                                                 \
        for (size_t i = 0; i < THIRD; i += 64) {                                                               \
            for (size_t k = i; k < 3 * THIRD; k += THIRD) __builtin_prefetch((void *)((uintptr_t)p + 3 * LONG + k)); \
            for (size_t k = i; k < i + 64; k += 8) {                                                           \
                a = STEP(a, kw_le64(p + k));                                                                    \
                b = STEP(b, kw_le64(p + k + THIRD));                                                            \
                c = STEP(c, kw_le64(p + k + 2 * THIRD));                                                        \
            }                                                                                                  \
        }                                                                                                      \
        a = JOIN((uint32_t)a, TWO) ^ JOIN((uint32_t)b, ONE) ^ c;                                               \
        p += 3 * THIRD;                                                                                        \
        n -= 3 * THIRD;                                                                                        \
    }

#if KW_CRC_X86

/* clang takes the CRC instruction for an extension of its own since version 14; in gcc, SSE4.2 has it. */
#if defined(__clang__) && __clang_major__ >= 14
#define KW_CRC_SSE42 "sse4.2,crc32,pclmul"
#else
#define KW_CRC_SSE42 "sse4.2,pclmul"
#endif

/* The product of two reflected 32-bit polynomials has 63 bits; the CRC instruction multiplies it by x^32 and reduces.
 * The missing 64th bit is one more x, hence constants of x^(bits - 33). */
__attribute__((target(KW_CRC_SSE42))) static inline uint64_t join_x86(uint32_t crc, uint32_t constant) {
    __m128i product = _mm_clmulepi64_si128(_mm_cvtsi32_si128((int)crc), _mm_cvtsi32_si128((int)constant), 0);
    return _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(product));
}

#define STEP(crc, word) _mm_crc32_u64(crc, word)
#define JOIN(crc, constant) join_x86(crc, constant)
__attribute__((target(KW_CRC_SSE42))) static uint32_t crc_sse42(uint32_t crc, const uint8_t *p, size_t n) {
    uint64_t a = (uint32_t)~crc;
    KW_CRC_THREE_WAY(LONG, shift_long, shift_long_twice)
    KW_CRC_THREE_WAY(SHORT, shift_short, shift_short_twice)
    for (; n >= 8; p += 8, n -= 8) a = STEP(a, kw_le64(p));
    uint32_t rest = (uint32_t)a;
    while (n--) rest = _mm_crc32_u8(rest, *p++);
    return ~rest;
}
#undef STEP
#undef JOIN
enum { JOIN_REDUCES_X = 33 };

/* The vector way ("Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel 2009, in registers
 * of 512 bits): the bytes read so far are a polynomial. Multiplying its 64-bit halves by x^(d + 32) and x^(d - 32)
 * moves it d bits up and reduces it a little; the product is added to the bytes read d bits later. Four registers
 * advance side by side; at the end they are folded into 128 bits, whose CRC is the CRC of all bytes. Products of
 * reflected polynomials lack a factor x: the constants have it. */
#define KW_CRC_VECTOR __attribute__((target(KW_CRC_SSE42 ",avx512f,vpclmulqdq")))
enum { STRIDE = 256, VECTOR_LEAST = 1024 };
static uint64_t fold_stride[2], fold_512[2], fold_128[2];

static void set_fold(uint64_t constants[2], unsigned bits) {
    constants[0] = (uint64_t)power_of_x(bits + 32) << 1;
    constants[1] = (uint64_t)power_of_x(bits - 32) << 1;
}

KW_CRC_VECTOR static inline __m512i fold_512_bits(__m512i sum, __m512i by, __m512i next) {
    __m512i low = _mm512_clmulepi64_epi128(sum, by, 0x00), high = _mm512_clmulepi64_epi128(sum, by, 0x11);
    return _mm512_ternarylogic_epi64(low, high, next, 0x96);
}

KW_CRC_VECTOR static inline __m128i fold_128_bits(__m128i sum, __m128i by, __m128i next) {
    return _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(sum, by, 0x00), _mm_clmulepi64_si128(sum, by, 0x11)), next);
}

KW_CRC_VECTOR static uint32_t crc_avx512(uint32_t crc, const uint8_t *p, size_t n) {
    if (n < VECTOR_LEAST) return crc_sse42(crc, p, n);
    __m512i by = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)fold_stride));
    __m512i a = _mm512_xor_si512(_mm512_loadu_si512(p), _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)~crc)));
    __m512i b = _mm512_loadu_si512(p + 64), c = _mm512_loadu_si512(p + 128), d = _mm512_loadu_si512(p + 192);
    for (p += STRIDE, n -= STRIDE; n >= STRIDE; p += STRIDE, n -= STRIDE) {
        a = fold_512_bits(a, by, _mm512_loadu_si512(p));
        b = fold_512_bits(b, by, _mm512_loadu_si512(p + 64));
        c = fold_512_bits(c, by, _mm512_loadu_si512(p + 128));
        d = fold_512_bits(d, by, _mm512_loadu_si512(p + 192));
    }
    by = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)fold_512));
    a = fold_512_bits(fold_512_bits(fold_512_bits(a, by, b), by, c), by, d);
    __m128i by_128 = _mm_loadu_si128((const void *)fold_128);
    __m128i sum = fold_128_bits(_mm512_extracti32x4_epi32(a, 0), by_128, _mm512_extracti32x4_epi32(a, 1));
    sum = fold_128_bits(sum, by_128, _mm512_extracti32x4_epi32(a, 2));
    sum = fold_128_bits(sum, by_128, _mm512_extracti32x4_epi32(a, 3));
    uint64_t rest = _mm_crc32_u64(_mm_crc32_u64(0, (uint64_t)_mm_extract_epi64(sum, 0)), (uint64_t)_mm_extract_epi64(sum, 1));
    return crc_sse42(~(uint32_t)rest, p, n);
}

/* The CPUID instruction itself: __builtin_cpu_supports reads a table of the compiler's runtime library, which some
 * compilers leave empty. The kernel must save the vector registers too, which XCR0 says (Intel SDM, volume 1,
 * section 13.3, and 15.2 for AVX-512): SSE, AVX, opmask, and both upper parts. */
enum { CPUID_PCLMUL = 1 << 1, CPUID_SSE42 = 1 << 20, CPUID_OSXSAVE = 1 << 27 };
enum { CPUID_7_AVX512F = 1 << 16, CPUID_7_VPCLMULQDQ = 1 << 10, XCR0_AVX512 = 0xE6 };

static uint32_t xcr0(void) {
    uint32_t low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static void find_x86(int *sse42, int *avx512) {
    unsigned a, b, c, d, base;
    *sse42 = *avx512 = 0;
    if (!__get_cpuid(1, &a, &b, &base, &d)) return;
    *sse42 = (base & CPUID_SSE42) && (base & CPUID_PCLMUL);
    if (!*sse42 || !(base & CPUID_OSXSAVE) || (xcr0() & XCR0_AVX512) != XCR0_AVX512) return;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return;
    *avx512 = (b & CPUID_7_AVX512F) && (c & CPUID_7_VPCLMULQDQ);
}

#elif KW_CRC_ARM

/* By its name in assembly, because compilers do not agree on how a function asks for the instruction. */
static inline uint64_t step_arm(uint64_t crc, uint64_t word) {
    uint32_t result;
    __asm__(".arch_extension crc\n\tcrc32cx %w0, %w1, %x2" : "=r"(result) : "r"((uint32_t)crc), "r"(word));
    return result;
}

#define STEP(crc, word) step_arm(crc, word)
#define JOIN(crc, constant) multiply(crc, constant)
static uint32_t crc_arm(uint32_t crc, const uint8_t *p, size_t n) {
    uint64_t a = (uint32_t)~crc;
    KW_CRC_THREE_WAY(LONG, shift_long, shift_long_twice)
    for (; n >= 8; p += 8, n -= 8) a = STEP(a, kw_le64(p));
    return crc_table(~(uint32_t)a, p, n);
}
#undef STEP
#undef JOIN
enum { JOIN_REDUCES_X = 0 };

#else
enum { JOIN_REDUCES_X = 0 };
#endif

static void add(const char *name, crc_function run) {
    implementations[implementation_count].name = name;
    implementations[implementation_count++].run = run;
}

__attribute__((constructor)) static void choose(void) {
    shift_long = power_of_x(8 * LONG - JOIN_REDUCES_X);
    shift_long_twice = power_of_x(16 * LONG - JOIN_REDUCES_X);
    shift_short = power_of_x(8 * SHORT - JOIN_REDUCES_X);
    shift_short_twice = power_of_x(16 * SHORT - JOIN_REDUCES_X);
    implementation_count = 0;
#if KW_CRC_X86
    set_fold(fold_stride, 8 * STRIDE);
    set_fold(fold_512, 512);
    set_fold(fold_128, 128);
    int sse42, avx512;
    find_x86(&sse42, &avx512);
    if (avx512) add("avx512", crc_avx512);
    if (sse42) add("sse4.2", crc_sse42);
#elif KW_CRC_ARM && defined(__linux__)
    if (getauxval(AT_HWCAP) & HWCAP_CRC32) add("armv8", crc_arm);
#elif KW_CRC_ARM && defined(__APPLE__)
    add("armv8", crc_arm);
#endif
    add("table", crc_table);
}

uint32_t kw_crc32c(uint32_t crc, const uint8_t *data, size_t size) { return implementations[0].run(crc, data, size); }
int kw_crc32c_count(void) { return implementation_count; }
const char *kw_crc32c_name(int i) { return implementations[i].name; }
uint32_t kw_crc32c_with(int i, uint32_t crc, const uint8_t *data, size_t size) {
    return implementations[i].run(crc, data, size);
}
