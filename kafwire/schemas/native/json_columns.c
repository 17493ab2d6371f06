#define _GNU_SOURCE /* strtod_l */
#include "kafwire/schemas/native/json_columns.h"

#include <locale.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#ifdef __APPLE__
#include <xlocale.h>
#endif

enum { MOST_DEPTH = 32, MOST_NAME = 256, MOST_NUMBER = 63, MOST_DIGITS = 18 };

/* The text that is left of a row. A function that meets anything it does not know returns NULL: the row is left. */
typedef struct {
    const uint8_t *end;
    locale_t locale;
    bool no_memory;
} reader;

static const double POWERS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

static inline bool is_digit(uint8_t c) { return (uint8_t)(c - '0') < 10; }

static inline const uint8_t *skip_space(const uint8_t *p, const uint8_t *end) {
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
        p++;
    return p;
}

/* --- text ---------------------------------------------------------------------------------------------------------- */

/* Return the place behind one character of UTF-8 above 0x7f; NULL if it is not valid (RFC 3629). */
static const uint8_t *after_character(const uint8_t *p, const uint8_t *end) {
    uint8_t first = *p, low = 0x80, high = 0xbf;
    int more;
    if (first >= 0xc2 && first <= 0xdf)
        more = 1;
    else if ((first & 0xf0) == 0xe0) {
        more = 2;
        low = first == 0xe0 ? 0xa0 : 0x80;
        high = first == 0xed ? 0x9f : 0xbf;
    } else if (first >= 0xf0 && first <= 0xf4) {
        more = 3;
        low = first == 0xf0 ? 0x90 : 0x80;
        high = first == 0xf4 ? 0x8f : 0xbf;
    } else
        return NULL;
    if (end - p <= more || p[1] < low || p[1] > high)
        return NULL;
    for (int i = 2; i <= more; i++)
        if ((p[i] & 0xc0) != 0x80)
            return NULL;
    return p + more + 1;
}

static inline bool is_plain(uint8_t c) { return c >= 0x20 && c < 0x80 && c != '"' && c != '\\'; }

/* Return the place of the next byte that is not plain text. */
static inline const uint8_t *skip_plain(const uint8_t *p, const uint8_t *end) {
    const uint64_t ones = UINT64_C(0x0101010101010101), highs = ones << 7;
    while (end - p >= 8) {
        uint64_t w;
        memcpy(&w, p, 8);
        uint64_t quote = w ^ (ones * '"'), back = w ^ (ones * '\\');
        uint64_t odd = (quote - ones) & ~quote;
        odd |= (back - ones) & ~back;
        odd |= w - ones * 0x20;  /* below 0x20; borrows only add bytes, which the loop below looks at */
        if ((odd | w) & highs)
            break;
        p += 8;
    }
    while (p < end && is_plain(*p))
        p++;
    return p;
}

/* Return the number of four hexadecimal digits; -1 if they are none. */
static int32_t four_digits(const uint8_t *p, const uint8_t *end) {
    int32_t found = 0;
    if (end - p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        uint8_t c = p[i];
        int digit = is_digit(c) ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
        if (digit < 0)
            return -1;
        found = found * 16 + digit;
    }
    return found;
}

/* Decode the escape at `p`, which is a backslash; write it to `out` unless that is NULL. Returns the place behind it. */
static const uint8_t *unescape(const uint8_t *p, const uint8_t *end, uint8_t **out) {
    static const char names[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    if (end - p < 2)
        return NULL;
    if (p[1] != 'u') {
        const char *at = p[1] ? strchr(names, p[1]) : NULL;
        if (at == NULL)
            return NULL;
        if (out != NULL)
            *(*out)++ = (uint8_t)meanings[at - names];
        return p + 2;
    }
    int32_t c = four_digits(p + 2, end);
    p += 6;
    if (c <= 0 || (c >= 0xdc00 && c <= 0xdfff))
        return NULL;
    if (c >= 0xd800 && c <= 0xdbff) {
        int32_t low = end - p >= 6 && p[0] == '\\' && p[1] == 'u' ? four_digits(p + 2, end) : -1;
        if (low < 0xdc00 || low > 0xdfff)
            return NULL;
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
        p += 6;
    }
    if (out == NULL)
        return p;
    uint8_t *to = *out;
    if (c < 0x80)
        *to++ = (uint8_t)c;
    else if (c < 0x800) {
        *to++ = (uint8_t)(0xc0 | c >> 6);
        *to++ = (uint8_t)(0x80 | (c & 63));
    } else if (c < 0x10000) {
        *to++ = (uint8_t)(0xe0 | c >> 12);
        *to++ = (uint8_t)(0x80 | (c >> 6 & 63));
        *to++ = (uint8_t)(0x80 | (c & 63));
    } else {
        *to++ = (uint8_t)(0xf0 | c >> 18);
        *to++ = (uint8_t)(0x80 | (c >> 12 & 63));
        *to++ = (uint8_t)(0x80 | (c >> 6 & 63));
        *to++ = (uint8_t)(0x80 | (c & 63));
    }
    *out = to;
    return p;
}

/* Return the quote that ends the text at `p`. */
static const uint8_t *skip_text(const uint8_t *p, const uint8_t *end) {
    for (;;) {
        p = skip_plain(p, end);
        if (p >= end)
            return NULL;
        if (*p == '"')
            return p;
        p = *p == '\\' ? unescape(p, end, NULL) : *p >= 0x80 ? after_character(p, end) : NULL;
        if (p == NULL)
            return NULL;
    }
}

/* Append the text at `p`, which is behind its quote, to a field. Returns the place behind the quote at its end. */
static const uint8_t *read_text(const uint8_t *p, reader *r, kw_json_field *field) {
    const uint8_t *start = p, *plain = skip_plain(p, r->end);
    const uint8_t *stop = plain < r->end && *plain == '"' ? plain : skip_text(plain, r->end);
    if (stop == NULL)
        return NULL;
    int64_t size = stop - start;  /* no escape is shorter than its character */
    if (field->text == NULL || field->text_size + size > field->text_room) {
        int64_t room = 2 * field->text_room + size + 64;
        uint8_t *more = realloc(field->text, (size_t)room);
        if (more == NULL) {
            r->no_memory = true;
            return NULL;
        }
        field->text = more;
        field->text_room = room;
    }
    uint8_t *out = field->text + field->text_size;
    if (plain == stop) {
        memcpy(out, start, (size_t)size);
        field->text_size += size;
        return stop + 1;
    }
    while (p < stop) {
        if (*p == '\\') {
            p = unescape(p, stop, &out);
            if (p == NULL)
                return NULL;
        } else
            *out++ = *p++;
    }
    field->text_size = out - field->text;
    return stop + 1;
}

/* --- numbers ------------------------------------------------------------------------------------------------------- */

typedef struct {
    uint64_t digits;  /* without the point */
    int32_t count;    /* of them, from the first that is not 0 */
    int32_t exponent;
    bool negative;
    bool whole;       /* has neither point nor exponent */
} number;

static const uint8_t *read_digits(const uint8_t *p, const uint8_t *end, number *n) {
    for (; p < end && is_digit(*p); p++) {
        if (n->count || *p != '0')
            n->count++;
        if (n->count <= MOST_DIGITS)
            n->digits = n->digits * 10 + (*p - '0');
    }
    return p;
}

/* Read a number of JSON's grammar; `n->digits` is exact if there are at most MOST_DIGITS. */
static const uint8_t *read_number(const uint8_t *p, const uint8_t *end, number *n) {
    memset(n, 0, sizeof *n);
    n->negative = p < end && *p == '-';
    p += n->negative;
    const uint8_t *first = p;
    p = read_digits(p, end, n);
    if (p == first || (*first == '0' && p - first > 1))
        return NULL;
    n->whole = true;
    if (p < end && *p == '.') {
        const uint8_t *fraction = ++p;
        p = read_digits(p, end, n);
        if (p == fraction || p - fraction > 1000)
            return NULL;
        n->exponent = -(int32_t)(p - fraction);
        n->whole = false;
    }
    if (p < end && (*p | 32) == 'e') {
        bool negative = ++p < end && *p == '-';
        p += p < end && (*p == '-' || *p == '+');
        int32_t power = 0;
        const uint8_t *start = p;
        for (; p < end && is_digit(*p); p++)
            power = power < 10000 ? power * 10 + (*p - '0') : power;
        if (p == start)
            return NULL;
        n->exponent += negative ? -power : power;
        n->whole = false;
    }
    return n->count + n->exponent > 300 ? NULL : p;  /* pyarrow refuses what no double can be */
}

static const uint8_t *read_integer(const uint8_t *p, reader *r, kw_json_field *field, int64_t row) {
    number n;
    p = read_number(p, r->end, &n);
    if (p == NULL || !n.whole || n.count > MOST_DIGITS || (n.negative && n.digits == 0))
        return NULL;
    int64_t value = n.negative ? -(int64_t)n.digits : (int64_t)n.digits;
    if (value < field->low || value > field->high)
        return NULL;
    switch (field->width) {  /* truncation keeps the two's complement of the range */
    case 1: ((uint8_t *)field->values)[row] = (uint8_t)value; break;
    case 2: ((uint16_t *)field->values)[row] = (uint16_t)value; break;
    case 4: ((uint32_t *)field->values)[row] = (uint32_t)value; break;
    default: ((uint64_t *)field->values)[row] = (uint64_t)value;
    }
    return p;
}

static const uint8_t *read_float(const uint8_t *p, reader *r, kw_json_field *field, int64_t row) {
    number n;
    const uint8_t *start = p;
    bool is_double = field->kind == KW_JSON_FLOAT64;
    p = read_number(p, r->end, &n);
    if (p == NULL)
        return NULL;
    int32_t power = n.exponent < 0 ? -n.exponent : n.exponent;
    /* Both numbers are exact then, and one operation rounds once (Clinger 1990). */
    bool exact = n.count <= MOST_DIGITS && n.digits <= (is_double ? UINT64_C(1) << 53 : UINT64_C(1) << 24) &&
                 power <= (is_double ? 22 : 10);
    double value;
    if (exact && is_double) {
        value = n.exponent < 0 ? (double)n.digits / POWERS[power] : (double)n.digits * POWERS[power];
        value = n.negative ? -value : value;
    } else if (exact) {
        float single = n.exponent < 0 ? (float)n.digits / (float)POWERS[power] : (float)n.digits * (float)POWERS[power];
        value = n.negative ? -single : single;
    } else {
        char text[MOST_NUMBER + 1];
        if (p - start > MOST_NUMBER || r->locale == (locale_t)0)
            return NULL;
        memcpy(text, start, (size_t)(p - start));
        text[p - start] = 0;
        value = is_double ? strtod_l(text, NULL, r->locale) : strtof_l(text, NULL, r->locale);
    }
    if (isinf(value))
        return NULL;
    if (is_double)
        ((double *)field->values)[row] = value;
    else
        ((float *)field->values)[row] = (float)value;
    return p;
}

/* --- values -------------------------------------------------------------------------------------------------------- */

static const uint8_t *read_word(const uint8_t *p, const uint8_t *end, const char *word, int32_t size) {
    return end - p >= size && memcmp(p, word, (size_t)size) == 0 ? p + size : NULL;
}

/* Return the place behind a value that no field has. */
static const uint8_t *skip_value(const uint8_t *p, reader *r, int depth) {
    const uint8_t *end = r->end;
    number n;
    if (p >= end || depth > MOST_DEPTH)
        return NULL;
    switch (*p) {
    case '"': p = skip_text(p + 1, end); return p == NULL ? NULL : p + 1;
    case 't': return read_word(p, end, "true", 4);
    case 'f': return read_word(p, end, "false", 5);
    case 'n': return read_word(p, end, "null", 4);
    case '{':
    case '[': break;
    default: return read_number(p, end, &n);
    }
    uint8_t close = *p == '{' ? '}' : ']';
    p = skip_space(p + 1, end);
    if (p < end && *p == close)
        return p + 1;
    for (;;) {
        if (close == '}') {
            if (p >= end || *p != '"' || (p = skip_text(p + 1, end)) == NULL)
                return NULL;
            p = skip_space(p + 1, end);
            if (p >= end || *p != ':')
                return NULL;
            p = skip_space(p + 1, end);
        }
        p = skip_value(p, r, depth + 1);
        if (p == NULL)
            return NULL;
        p = skip_space(p, end);
        if (p >= end)
            return NULL;
        if (*p == close)
            return p + 1;
        if (*p != ',')
            return NULL;
        p = skip_space(p + 1, end);
    }
}

static const uint8_t *read_value(const uint8_t *p, reader *r, kw_json_field *field, int64_t row) {
    if (p >= r->end || field->seen == row)  /* a repeated member */
        return NULL;
    field->seen = row;
    if (*p == 'n')
        return read_word(p, r->end, "null", 4);
    switch (field->kind) {
    case KW_JSON_STRING: p = *p == '"' ? read_text(p + 1, r, field) : NULL; break;
    case KW_JSON_INT: p = read_integer(p, r, field, row); break;
    case KW_JSON_BOOL:
        if (*p == 't') {
            p = read_word(p, r->end, "true", 4);
            field->values[row >> 3] |= (uint8_t)(p != NULL) << (row & 7);
        } else
            p = read_word(p, r->end, "false", 5);
        break;
    default: p = read_float(p, r, field, row);
    }
    if (p != NULL)
        field->valid[row >> 3] |= (uint8_t)(1 << (row & 7));
    return p;
}

/* --- rows ---------------------------------------------------------------------------------------------------------- */

static inline bool is_named(const kw_json_field *field, const uint8_t *name, int64_t size) {
    return field->name_size == size && memcmp(field->name, name, (size_t)size) == 0;
}

/* Write a name without escapes to `plain`. Returns its size; -1 if it is too long. */
static int64_t unescaped(const uint8_t *p, const uint8_t *end, uint8_t *plain) {
    uint8_t *out = plain;
    if (end - p > MOST_NAME)
        return -1;
    while (p < end) {
        if (*p == '\\') {
            p = unescape(p, end, &out);
            if (p == NULL)
                return -1;
        } else
            *out++ = *p++;
    }
    return out - plain;
}

static bool read_row(const uint8_t *p, reader *r, kw_json_field *fields, int32_t count, int64_t row) {
    const uint8_t *end = r->end;
    int32_t next = 0;  /* members mostly come in the order of the fields */
    p = skip_space(p, end);
    if (p >= end || *p != '{')
        return false;
    p = skip_space(p + 1, end);
    if (p < end && *p == '}')
        return skip_space(p + 1, end) == end;
    for (;;) {
        if (p >= end || *p != '"')
            return false;
        const uint8_t *name = p + 1;
        uint8_t plain[MOST_NAME];
        p = skip_plain(name, end);
        if (p >= end || *p != '"') {
            p = skip_text(p, end);
            if (p == NULL)
                return false;
        }
        int64_t size = p - name;
        if (memchr(name, '\\', (size_t)size) != NULL) {
            size = unescaped(name, p, plain);
            if (size < 0)
                return false;
            name = plain;
        }
        kw_json_field *field = NULL;
        if (next < count && is_named(&fields[next], name, size))
            field = &fields[next++];
        else
            for (int32_t i = 0; i < count; i++)
                if (is_named(&fields[i], name, size)) {
                    field = &fields[i];
                    next = i + 1;
                    break;
                }
        p = skip_space(p + 1, end);
        if (p >= end || *p != ':')
            return false;
        p = skip_space(p + 1, end);
        p = field == NULL ? skip_value(p, r, 0) : read_value(p, r, field, row);
        if (p == NULL)
            return false;
        p = skip_space(p, end);
        if (p >= end)
            return false;
        if (*p == '}')
            return skip_space(p + 1, end) == end;
        if (*p != ',')
            return false;
        p = skip_space(p + 1, end);
    }
}

/* Take the values of a row back. */
static void clear_row(kw_json_field *fields, int32_t count, int64_t row) {
    uint8_t bit = (uint8_t)(1 << (row & 7));
    for (int32_t i = 0; i < count; i++) {
        kw_json_field *field = &fields[i];
        field->valid[row >> 3] &= (uint8_t)~bit;
        if (field->kind == KW_JSON_STRING)
            field->text_size = field->offsets[row];
        else if (field->kind == KW_JSON_BOOL)
            field->values[row >> 3] &= (uint8_t)~bit;
    }
}

static inline bool is_null(const kw_json_texts *texts, int64_t row) {
    int64_t at = texts->valid_at + row;
    return texts->valid != NULL && !(texts->valid[at >> 3] >> (at & 7) & 1);
}

int64_t kw_json_read(kw_json_field *fields, int32_t count, const kw_json_texts *texts, uint8_t *outcome, uint8_t *valid) {
    reader r = {NULL, newlocale(LC_ALL_MASK, "C", (locale_t)0), false};
    int64_t left = 0;
    for (int64_t row = 0; row < texts->rows && !r.no_memory; row++) {
        outcome[row] = KW_JSON_ROW_NULL;
        if (!is_null(texts, row)) {
            r.end = texts->data + texts->offsets[row + 1];
            if (read_row(texts->data + texts->offsets[row], &r, fields, count, row)) {
                outcome[row] = KW_JSON_ROW_READ;
                valid[row >> 3] |= (uint8_t)(1 << (row & 7));
            } else {
                outcome[row] = KW_JSON_ROW_LEFT;
                clear_row(fields, count, row);
                left++;
            }
        }
        for (int32_t i = 0; i < count; i++) {
            kw_json_field *field = &fields[i];
            field->nulls += !(field->valid[row >> 3] >> (row & 7) & 1);
            if (field->kind == KW_JSON_STRING)
                field->offsets[row + 1] = (int32_t)field->text_size;
        }
    }
    if (r.locale != (locale_t)0)
        freelocale(r.locale);
    return r.no_memory ? -1 : left;
}

int64_t kw_json_join(const kw_json_texts *texts, uint8_t *out) {
    uint8_t *start = out;
    for (int64_t row = 0; row < texts->rows; row++) {
        if (is_null(texts, row))
            continue;
        int32_t size = texts->offsets[row + 1] - texts->offsets[row];
        memcpy(out, "{\"v\":", 5);
        memcpy(out + 5, texts->data + texts->offsets[row], (size_t)size);
        memcpy(out + 5 + size, "}\n", 2);
        out += size + 7;
    }
    return out - start;
}
