/* The look-up table of a reflected CRC as a constant, which several extensions may have.
 *
 * The entry of a byte is the sum of those of its bits, so eight numbers make a table: the entry of 128, which is the
 * polynomial itself, then of 64, and so on down to 1; each is the previous one, advanced by one bit. Continuing in this
 * way gives the table for a byte that is one place, two places, ... further from the end. */
#ifndef KAFWIRE_CRC_TABLE_H
#define KAFWIRE_CRC_TABLE_H

#define KW_CRC_BIT(i, bit, number) ((i) & (bit) ? number##u : 0u)
#define KW_CRC_ENTRY(i, a, b, c, d, e, f, g, h)                                                                        \
    KW_CRC_BIT(i, 128, a) ^ KW_CRC_BIT(i, 64, b) ^ KW_CRC_BIT(i, 32, c) ^ KW_CRC_BIT(i, 16, d) ^                       \
        KW_CRC_BIT(i, 8, e) ^ KW_CRC_BIT(i, 4, f) ^ KW_CRC_BIT(i, 2, g) ^ KW_CRC_BIT(i, 1, h)
#define KW_CRC_4(i, ...)                                                                                               \
    KW_CRC_ENTRY(i, __VA_ARGS__), KW_CRC_ENTRY(i + 1, __VA_ARGS__), KW_CRC_ENTRY(i + 2, __VA_ARGS__),                  \
        KW_CRC_ENTRY(i + 3, __VA_ARGS__)
#define KW_CRC_16(i, ...)                                                                                              \
    KW_CRC_4(i, __VA_ARGS__), KW_CRC_4(i + 4, __VA_ARGS__), KW_CRC_4(i + 8, __VA_ARGS__), KW_CRC_4(i + 12, __VA_ARGS__)
#define KW_CRC_64(i, ...)                                                                                              \
    KW_CRC_16(i, __VA_ARGS__), KW_CRC_16(i + 16, __VA_ARGS__), KW_CRC_16(i + 32, __VA_ARGS__),                         \
        KW_CRC_16(i + 48, __VA_ARGS__)
#define KW_CRC_TABLE(...)                                                                                              \
    {KW_CRC_64(0, __VA_ARGS__), KW_CRC_64(64, __VA_ARGS__), KW_CRC_64(128, __VA_ARGS__), KW_CRC_64(192, __VA_ARGS__)}

#endif
