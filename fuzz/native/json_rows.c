/* Rows read from exact memory are the rows that each text gives alone: no row sees its neighbours, a row that is left has
 * no values, and text columns stay within their memory.
 *
 * Input: texts, separated by the byte 0xff. */
#include "kafwire/schemas/native/json_columns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIELDS = 6, MOST_ROWS = 64 };

static void broken(const char *what) {
    fprintf(stderr, "INVARIANT BROKEN: %s\n", what);
    abort();
}

static void *allocate(size_t size) {
    void *memory = calloc(size ? size : 1, 1);
    if (!memory) abort();
    return memory;
}

typedef struct {
    kw_json_field fields[FIELDS];
    uint8_t *outcome, *valid;
    int64_t left;
} result;

static void read_all(result *r, const uint8_t *data, const int32_t *offsets, int64_t rows) {
    static const kw_json_field KINDS[FIELDS] = {
        {.name = "s", .kind = KW_JSON_STRING},
        {.name = "n", .kind = KW_JSON_INT, .width = 8, .low = INT64_MIN, .high = INT64_MAX},
        {.name = "b", .kind = KW_JSON_INT, .width = 1, .low = -128, .high = 127},
        {.name = "x", .kind = KW_JSON_FLOAT64, .width = 8},
        {.name = "f", .kind = KW_JSON_FLOAT32, .width = 4},
        {.name = "k", .kind = KW_JSON_BOOL},
    };
    for (int i = 0; i < FIELDS; i++) {
        kw_json_field *field = &r->fields[i];
        *field = KINDS[i];
        field->name_size = 1;
        field->seen = -1;
        field->valid = allocate((size_t)(rows + 7) / 8);
        if (field->kind == KW_JSON_STRING)
            field->offsets = allocate(4 * (size_t)(rows + 1));
        else
            field->values = allocate(field->kind == KW_JSON_BOOL ? (size_t)(rows + 7) / 8 : (size_t)(field->width * rows));
    }
    r->outcome = allocate((size_t)rows);
    r->valid = allocate((size_t)(rows + 7) / 8);
    kw_json_texts texts = {data, offsets, NULL, 0, rows};
    r->left = kw_json_read(r->fields, FIELDS, &texts, r->outcome, r->valid);
    uint8_t *joined = allocate((size_t)(7 * rows + offsets[rows] - offsets[0]));
    if (kw_json_join(&texts, joined) != 7 * rows + offsets[rows] - offsets[0]) broken("a joined text of another size");
    free(joined);
}

static void free_all(result *r) {
    for (int i = 0; i < FIELDS; i++) {
        free(r->fields[i].valid);
        free(r->fields[i].values);
        free(r->fields[i].offsets);
        free(r->fields[i].text);
    }
    free(r->outcome);
    free(r->valid);
}

static int bit(const uint8_t *bits, int64_t row) { return bits[row >> 3] >> (row & 7) & 1; }

static void compare(const result *all, int64_t row, const result *one) {
    if (all->outcome[row] != one->outcome[0]) broken("another outcome alone");
    if (bit(all->valid, row) != (all->outcome[row] == KW_JSON_ROW_READ)) broken("a bit that is not the outcome");
    for (int i = 0; i < FIELDS; i++) {
        const kw_json_field *a = &all->fields[i], *b = &one->fields[i];
        int is_valid = bit(a->valid, row);
        if (is_valid != bit(b->valid, 0)) broken("a null alone, or not");
        if (is_valid && all->outcome[row] != KW_JSON_ROW_READ) broken("a value of a row that is left");
        if (a->kind == KW_JSON_STRING) {
            int32_t size = a->offsets[row + 1] - a->offsets[row];
            if (size != b->text_size || (size && memcmp(a->text + a->offsets[row], b->text, (size_t)size)))
                broken("another text alone");
        } else if (a->kind == KW_JSON_BOOL) {
            if (bit(a->values, row) != bit(b->values, 0)) broken("another bool alone");
        } else if (is_valid && memcmp(a->values + row * a->width, b->values, (size_t)a->width))
            broken("another number alone");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int32_t offsets[MOST_ROWS + 1] = {0};
    int64_t rows = 0;
    uint8_t *texts = allocate(size);
    int32_t at = 0;
    for (size_t i = 0; i <= size && rows < MOST_ROWS; i++) {
        if (i == size || data[i] == 0xff)
            offsets[++rows] = at;
        else
            texts[at++] = data[i];
    }
    uint8_t *exact = allocate((size_t)offsets[rows]);
    memcpy(exact, texts, (size_t)offsets[rows]);
    free(texts);
    result all, one;
    read_all(&all, exact, offsets, rows);
    int64_t left = 0;
    for (int64_t row = 0; row < rows; row++) {
        int32_t alone[2] = {0, offsets[row + 1] - offsets[row]};
        uint8_t *text = allocate((size_t)alone[1]);
        memcpy(text, exact + offsets[row], (size_t)alone[1]);
        read_all(&one, text, alone, 1);
        compare(&all, row, &one);
        left += all.outcome[row] == KW_JSON_ROW_LEFT;
        free_all(&one);
        free(text);
    }
    if (left != all.left) broken("another number of rows that are left");
    free_all(&all);
    free(exact);
    return 0;
}
