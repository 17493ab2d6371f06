/* Rows of JSON objects to columns of plain types. A row that needs more than this reader knows is left to pyarrow's:
   an unusual form of a number, a repeated member, a mistake. So each accepted row has the values that pyarrow reads. */
#ifndef KAFWIRE_JSON_COLUMNS_H
#define KAFWIRE_JSON_COLUMNS_H

#include <stdint.h>

enum { KW_JSON_BOOL = 1, KW_JSON_INT, KW_JSON_FLOAT32, KW_JSON_FLOAT64, KW_JSON_STRING };
enum { KW_JSON_ROW_NULL = 0, KW_JSON_ROW_READ = 1, KW_JSON_ROW_LEFT = 2 };

typedef struct {
    const char *name;
    int32_t name_size;
    int32_t kind;
    int32_t width;       /* bytes of an integer */
    int64_t low;         /* the range of an integer */
    int64_t high;
    uint8_t *valid;      /* a bitmap; all buffers begin as zeros, and have room for the rows */
    uint8_t *values;     /* of fixed width; a bitmap of bools; NULL for strings */
    int32_t *offsets;    /* of strings, rows + 1 */
    uint8_t *text;
    int64_t text_size;
    int64_t text_room;
    int64_t nulls;
    int64_t seen;        /* the last row that has the member */
} kw_json_field;

typedef struct {
    const uint8_t *data;
    const int32_t *offsets;  /* of the first row, and of one more than there are rows */
    const uint8_t *valid;    /* NULL: no row is null */
    int64_t valid_at;        /* the bit of the first row */
    int64_t rows;
} kw_json_texts;

/* Read the rows. `outcome` gets a KW_JSON_ROW_* for each, `valid` a bit for each KW_JSON_ROW_READ. Returns the number of
   rows that are left, or -1 without memory. */
int64_t kw_json_read(kw_json_field *fields, int32_t count, const kw_json_texts *texts, uint8_t *outcome, uint8_t *valid);

/* Write the rows that are not null as {"v":...} and a line end each; `out` has room for 7 bytes more than each text.
   Returns the number of bytes. */
int64_t kw_json_join(const kw_json_texts *texts, uint8_t *out);

#endif
