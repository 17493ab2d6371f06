/* decoder: its lines are counted by scripts/coverage.py */
#include "kafwire/protobuf/native/decode.h"

#include <stdlib.h>
#include <string.h>

#include "kafwire/memory/native/bytes.h"

enum { VARINT, FIXED64, COUNTED, GROUP, END_GROUP, FIXED32 };
enum { MAX_GROUPS = 100, FIRST_PIECES = 16, NANOS = 1000000000 };

/* The last value of a singular field: a number, bytes, or the first of a message's pieces. */
typedef struct {
    uint64_t number;
    const uint8_t *data;
    int64_t size;
    int32_t last; /* the last piece of a message; -1: none beyond `data` */
    int32_t next; /* the second one */
    int32_t is_set;
} Slot;

/* A further piece of a message. */
typedef struct {
    const uint8_t *data;
    int64_t size;
    int32_t next;
} Piece;

typedef struct {
    Slot *slots; /* of all fields of the program */
    Piece *pieces;
    int32_t capacity;
} Memory;

typedef struct {
    const kw_pb_program *program;
    kw_columns *columns;
    Memory *memory;
    int32_t pieces; /* used */
    const uint8_t *begin;
    kw_failure *failure;
} Machine;

static int fail(Machine *m, int32_t where, int code, const uint8_t *at, int64_t detail) {
    m->failure->code = code;
    m->failure->where = where;
    m->failure->detail = detail;
    m->failure->at = at - m->begin;
    return code;
}

/* --- numbers ------------------------------------------------------------------------------------------------------ */

/* Ten bytes at most, of which the last has one bit: as every implementation, the bits above 64 are ignored. */
static inline const uint8_t *read_varint(const uint8_t *p, const uint8_t *end, uint64_t *out) {
    if (p < end && *p < 128) {
        *out = *p;
        return p + 1;
    }
    uint64_t value = 0;
    for (int shift = 0; p < end && shift < 70; shift += 7) {
        uint64_t byte = *p++;
        value |= (byte & 127) << shift;
        if (byte < 128) {
            *out = value;
            return p;
        }
    }
    return NULL;
}

static int bad_varint(Machine *m, int32_t where, const uint8_t *at, const uint8_t *end, int most) {
    for (int i = 0; i < most; i++)
        if (at + i == end) return fail(m, where, KW_PB_BAD_TRUNCATED, at, i + 1);
    return fail(m, where, KW_PB_BAD_VARINT, at, most);
}

/* The bytes that a length counts, or NULL after a failure. Five bytes at most, as C++ and upb allow. */
static inline const uint8_t *read_counted(Machine *m, int32_t where, const uint8_t *at, const uint8_t *end,
                                          uint32_t *size) {
    const uint8_t *data = kw_uvarint(at, end, size);
    if (!data)
        bad_varint(m, where, at, end, 5);
    else if (*size > (uint64_t)(end - data)) {
        fail(m, where, KW_PB_BAD_TRUNCATED, at, *size);
        return NULL;
    }
    return data;
}

/* Sets *number and *wire. Field numbers have 29 bits, wire types are below 6. */
static inline const uint8_t *read_tag(const uint8_t *p, const uint8_t *end, int32_t *number, int *wire) {
    uint32_t tag;
    p = kw_uvarint(p, end, &tag);
    if (!p || tag < 8 || (tag & 7) > FIXED32) return NULL;
    *number = (int32_t)(tag >> 3);
    *wire = (int)(tag & 7);
    return p;
}

/* --- fields that the program does not have ------------------------------------------------------------------------ */

static const uint8_t *skip_group(Machine *m, int32_t where, int32_t number, const uint8_t *at, const uint8_t *end,
                                 int depth);

/* The byte after a field, or NULL after a failure. */
static const uint8_t *skip(Machine *m, int32_t where, int32_t number, int wire, const uint8_t *at, const uint8_t *end,
                           int depth) {
    const uint8_t *behind;
    uint64_t value;
    uint32_t size;
    switch (wire) {
    case VARINT:
        behind = read_varint(at, end, &value);
        if (!behind) bad_varint(m, where, at, end, 10);
        return behind;
    case COUNTED:
        behind = read_counted(m, where, at, end, &size);
        return behind ? behind + size : NULL;
    case GROUP:
        return skip_group(m, where, number, at, end, depth + 1);
    case END_GROUP:
        fail(m, where, KW_PB_BAD_GROUP, at, number);
        return NULL;
    default:
        value = wire == FIXED64 ? 8 : 4;
        if (value > (uint64_t)(end - at)) {
            fail(m, where, KW_PB_BAD_TRUNCATED, at, (int64_t)value);
            return NULL;
        }
        return at + value;
    }
}

/* The byte after a group's end. */
static const uint8_t *skip_group(Machine *m, int32_t where, int32_t number, const uint8_t *at, const uint8_t *end,
                                 int depth) {
    if (depth > MAX_GROUPS) {
        fail(m, where, KW_PB_BAD_DEPTH, at, MAX_GROUPS);
        return NULL;
    }
    while (at < end) {
        int32_t inner;
        int wire;
        const uint8_t *behind = read_tag(at, end, &inner, &wire);
        if (!behind) {
            fail(m, where, KW_PB_BAD_TAG, at, *at);
            return NULL;
        }
        if (wire == END_GROUP && inner == number) return behind;
        at = skip(m, where, inner, wire, behind, end, depth);
        if (!at) return NULL;
    }
    fail(m, where, KW_PB_BAD_GROUP, at, number);
    return NULL;
}

/* --- values ------------------------------------------------------------------------------------------------------- */

static inline int wire_of(int32_t type) {
    switch (type) {
    case KW_PB_FIXED32:
        return FIXED32;
    case KW_PB_FIXED64:
        return FIXED64;
    case KW_PB_BYTES:
    case KW_PB_STRING:
    case KW_PB_MESSAGE:
        return COUNTED;
    case KW_PB_GROUP:
        return GROUP;
    default:
        return VARINT;
    }
}

static inline int is_packable(int32_t type) { return wire_of(type) != COUNTED && type != KW_PB_GROUP; }

/* The number at `at`, with the size of the wire type; *behind is the byte after it. */
static inline int read_number(Machine *m, const kw_pb_field *field, const uint8_t *at, const uint8_t *end,
                              uint64_t *value, const uint8_t **behind) {
    switch (wire_of(field->type)) {
    case FIXED32:
        if (end - at < 4) return fail(m, field->where, KW_PB_BAD_TRUNCATED, at, 4);
        *value = kw_le32(at);
        *behind = at + 4;
        return 0;
    case FIXED64:
        if (end - at < 8) return fail(m, field->where, KW_PB_BAD_TRUNCATED, at, 8);
        *value = kw_le64(at);
        *behind = at + 8;
        return 0;
    default:
        *behind = read_varint(at, end, value);
        return *behind ? 0 : bad_varint(m, field->where, at, end, 10);
    }
}

/* The entry of an enum's number, or NULL. Most enums count from 0. */
static const int32_t *enum_entry(Machine *m, const kw_pb_field *field, int32_t number) {
    int32_t width = field->type == KW_PB_ENUM ? 3 : 2;
    const int32_t *table = m->program->tables + field->table;
    if (number >= 0 && number < field->entries && table[width * number] == number) return table + width * number;
    int32_t low = 0, high = field->entries;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (table[width * middle] < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low < field->entries && table[width * low] == number ? table + width * low : NULL;
}

static inline int is_known(Machine *m, const kw_pb_field *field, uint64_t value) {
    return !(field->flags & KW_PB_CLOSED) || enum_entry(m, field, (int32_t)value);
}

/* A number without a symbol, as Protobuf's JSON writes it. */
static int append_digits(Machine *m, int32_t column, int32_t number) {
    uint8_t text[11], *at = text + sizeof text;
    uint32_t left = number < 0 ? 0 - (uint32_t)number : (uint32_t)number;
    do *--at = (uint8_t)('0' + left % 10);
    while (left /= 10);
    if (number < 0) *--at = '-';
    return kw_append_bytes(m->columns, column, at, text + sizeof text - at);
}

static int append_enum(Machine *m, const kw_pb_field *field, int32_t column, int32_t number) {
    const int32_t *entry = enum_entry(m, field, number);
    if (field->type == KW_PB_ENUM)
        return entry ? kw_append_bytes(m->columns, column, m->program->texts + entry[1], entry[2])
                     : append_digits(m, column, number);
    return entry ? kw_append_fixed(m->columns, column, &entry[1], 4) : kw_columns_append_null(m->columns, column);
}

static inline int append_number(Machine *m, const kw_pb_field *field, int32_t column, uint64_t value) {
    uint32_t narrow = (uint32_t)value;
    int failed;
    switch (field->type) {
    case KW_PB_SINT32:
        narrow = narrow >> 1 ^ (0 - (narrow & 1));
        failed = kw_append_fixed(m->columns, column, &narrow, 4);
        break;
    case KW_PB_SINT64:
        value = (uint64_t)kw_unzigzag(value);
        failed = kw_append_fixed(m->columns, column, &value, 8);
        break;
    case KW_PB_BOOL:
        failed = kw_append_boolean(m->columns, column, value != 0);
        break;
    case KW_PB_INT64:
    case KW_PB_FIXED64:
        failed = kw_append_fixed(m->columns, column, &value, 8);
        break;
    case KW_PB_ENUM:
    case KW_PB_ENUM_INDEX:
        failed = append_enum(m, field, column, (int32_t)narrow);
        break;
    default:
        failed = kw_append_fixed(m->columns, column, &narrow, 4);
    }
    return failed ? fail(m, field->where, failed, m->begin, 0) : 0;
}

static inline int append_counted(Machine *m, const kw_pb_field *field, int32_t column, const uint8_t *data, int64_t size) {
    int failed = kw_append_bytes(m->columns, column, data, size);
    return failed ? fail(m, field->where, failed, m->begin, 0) : 0;
}

/* --- messages ----------------------------------------------------------------------------------------------------- */

static int decode_message(Machine *m, const kw_pb_message *message, const Slot *pieces);

static inline const kw_pb_field *field_of(Machine *m, const kw_pb_message *message, int32_t number) {
    const kw_pb_field *fields = m->program->fields + message->first;
    if (number <= message->dense_size) {
        int32_t place = m->program->tables[message->dense + number - 1];
        return place < 0 ? NULL : fields + place;
    }
    int32_t low = 0, high = message->fields;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (fields[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low < message->fields && fields[low].number == number ? fields + low : NULL;
}

/* The other members of a oneof are absent from here on. A message among them is decoded and dropped: its mistakes make
 * the value bad, as every other byte. */
static int clear_others(Machine *m, const kw_pb_message *message, const kw_pb_field *field) {
    const kw_pb_field *fields = m->program->fields + message->first;
    for (int32_t i = 0; i < message->fields; i++) {
        Slot *slot = &m->memory->slots[message->first + i];
        if (fields[i].oneof != field->oneof || &fields[i] == field || !slot->is_set) continue;
        slot->is_set = 0;
        if (fields[i].type != KW_PB_MESSAGE && fields[i].type != KW_PB_GROUP) continue;
        int64_t before = m->columns->columns[fields[i].column].length;
        int failed = decode_message(m, m->program->messages + fields[i].message, slot);
        if (failed) return failed;
        kw_columns_truncate(m->columns, fields[i].column, before);
    }
    return 0;
}

static int add_piece(Machine *m, const kw_pb_field *field, Slot *slot, const uint8_t *data, int64_t size) {
    Memory *memory = m->memory;
    if (m->pieces == memory->capacity) {
        int32_t capacity = memory->capacity ? 2 * memory->capacity : FIRST_PIECES;
        Piece *grown = memory->capacity > INT32_MAX / 2 ? NULL : realloc(memory->pieces, sizeof *grown * (size_t)capacity);
        if (!grown) return fail(m, field->where, KW_COLUMNS_NO_MEMORY, m->begin, 0);
        memory->pieces = grown;
        memory->capacity = capacity;
    }
    memory->pieces[m->pieces] = (Piece){data, size, -1};
    if (slot->last < 0)
        slot->next = m->pieces;
    else
        memory->pieces[slot->last].next = m->pieces;
    slot->last = m->pieces++;
    return 0;
}

static int set_message(Machine *m, const kw_pb_field *field, Slot *slot, const uint8_t *data, int64_t size) {
    if (slot->is_set) return add_piece(m, field, slot, data, size);
    slot->data = data;
    slot->size = size;
    slot->last = slot->next = -1;
    slot->is_set = 1;
    return 0;
}

static int append_element(Machine *m, const kw_pb_field *field, const uint8_t *data, int64_t size) {
    if (field->type != KW_PB_MESSAGE && field->type != KW_PB_GROUP)
        return append_counted(m, field, field->item, data, size);
    Slot piece = {.data = data, .size = size, .last = -1, .next = -1, .is_set = 1};
    return decode_message(m, m->program->messages + field->message, &piece);
}

/* Bytes, text, a message, or a group without its tags. */
static int take_bytes(Machine *m, const kw_pb_message *message, const kw_pb_field *field, const uint8_t *data, int64_t size) {
    if (field->type == KW_PB_STRING && !kw_is_utf8(data, (size_t)size)) /* also of a text that a later one replaces */
        return fail(m, field->where, KW_PB_BAD_UTF8, data, size);
    if (field->flags & KW_PB_REPEATED) return append_element(m, field, data, size);
    Slot *slot = &m->memory->slots[field - m->program->fields];
    int failed = field->oneof ? clear_others(m, message, field) : 0;
    if (failed) return failed;
    if (field->type == KW_PB_MESSAGE || field->type == KW_PB_GROUP) return set_message(m, field, slot, data, size);
    slot->data = data;
    slot->size = size;
    slot->is_set = 1;
    return 0;
}

static inline int take_number(Machine *m, const kw_pb_message *message, const kw_pb_field *field, uint64_t value) {
    if (!is_known(m, field, value)) return 0;
    if (field->flags & KW_PB_REPEATED) return append_number(m, field, field->item, value);
    Slot *slot = &m->memory->slots[field - m->program->fields];
    int failed = field->oneof ? clear_others(m, message, field) : 0;
    if (failed) return failed;
    slot->number = value;
    slot->is_set = 1;
    return 0;
}

static int take_packed(Machine *m, const kw_pb_message *message, const kw_pb_field *field, const uint8_t *at,
                       const uint8_t *end) {
    while (at < end) {
        uint64_t value = 0;
        int failed = read_number(m, field, at, end, &value, &at);
        if (!failed) failed = take_number(m, message, field, value);
        if (failed) return failed;
    }
    return 0;
}

static int take_counted(Machine *m, const kw_pb_message *message, const kw_pb_field *field, const uint8_t *at,
                        const uint8_t *end, const uint8_t **behind) {
    uint32_t size;
    const uint8_t *data = read_counted(m, field->where, at, end, &size);
    if (!data) return m->failure->code;
    *behind = data + size;
    return is_packable(field->type) ? take_packed(m, message, field, data, *behind)
                                    : take_bytes(m, message, field, data, size);
}

static int take_group(Machine *m, const kw_pb_message *message, const kw_pb_field *field, const uint8_t *at,
                      const uint8_t *end, const uint8_t **behind) {
    *behind = skip_group(m, field->where, field->number, at, end, 1);
    if (!*behind) return m->failure->code;
    const uint8_t *last = *behind - 1; /* of the end's tag */
    while (last > at && last[-1] & 128) last--;
    return take_bytes(m, message, field, at, last - at);
}

/* One field, if its wire type is one of its type's; others are unknown fields. */
static int take(Machine *m, const kw_pb_message *message, const kw_pb_field *field, int32_t number, int wire,
                const uint8_t *at, const uint8_t *end, const uint8_t **behind) {
    int expected = field ? wire_of(field->type) : -1;
    if (wire == expected && wire != COUNTED && wire != GROUP) {
        uint64_t value = 0;
        int failed = read_number(m, field, at, end, &value, behind);
        return failed ? failed : take_number(m, message, field, value);
    }
    if (wire == COUNTED && field && (expected == COUNTED || (field->flags & KW_PB_REPEATED && is_packable(field->type))))
        return take_counted(m, message, field, at, end, behind);
    if (wire == GROUP && expected == GROUP) return take_group(m, message, field, at, end, behind);
    *behind = skip(m, message->where, number, wire, at, end, 0);
    return *behind ? 0 : m->failure->code;
}

static int scan(Machine *m, const kw_pb_message *message, const uint8_t *at, const uint8_t *end) {
    while (at < end) {
        int32_t number = 0;
        int wire = 0;
        const uint8_t *behind = read_tag(at, end, &number, &wire);
        if (!behind) return fail(m, message->where, KW_PB_BAD_TAG, at, *at);
        int failed = take(m, message, field_of(m, message, number), number, wire, behind, end, &at);
        if (failed) return failed;
    }
    return 0;
}

/* The value of an absent field: null, or the type's zero. */
static int append_absent(Machine *m, const kw_pb_field *field) {
    if (field->flags & KW_PB_PRESENCE) {
        int failed = kw_columns_append_null(m->columns, field->column);
        return failed ? fail(m, field->where, failed, m->begin, 0) : 0;
    }
    switch (field->type) {
    case KW_PB_MESSAGE:
    case KW_PB_GROUP:
        return decode_message(m, m->program->messages + field->message, NULL);
    case KW_PB_BYTES:
    case KW_PB_STRING:
        return append_counted(m, field, field->column, m->begin, 0);
    default:
        return append_number(m, field, field->column, 0);
    }
}

static int append_field(Machine *m, const kw_pb_field *field, const Slot *slot) {
    if (field->flags & KW_PB_REPEATED) {
        int failed = kw_append_list(m->columns, field->column);
        return failed ? fail(m, field->where, failed, m->begin, 0) : 0;
    }
    if (!slot->is_set) return append_absent(m, field);
    switch (field->type) {
    case KW_PB_MESSAGE:
    case KW_PB_GROUP:
        return decode_message(m, m->program->messages + field->message, slot);
    case KW_PB_BYTES:
    case KW_PB_STRING:
        return append_counted(m, field, field->column, slot->data, slot->size);
    default:
        return append_number(m, field, field->column, slot->number);
    }
}

/* Seconds and nanos as one number: nanos below a unit are cut off, towards the past. Parsers take any nanos. */
static int append_time(Machine *m, const kw_pb_message *message) {
    const Slot *slots = m->memory->slots + message->first;
    int64_t seconds = slots[0].is_set ? (int64_t)slots[0].number : 0, value;
    int32_t nanos = slots[1].is_set ? (int32_t)slots[1].number : 0;
    int64_t part = nanos / (NANOS / message->unit);
    if (nanos < 0 && nanos % (NANOS / message->unit)) part--;
    if (__builtin_mul_overflow(seconds, message->unit, &value) || __builtin_add_overflow(value, part, &value))
        return fail(m, message->where, KW_PB_BAD_TIME, m->begin, seconds);
    int failed = kw_append_fixed(m->columns, message->column, &value, 8);
    return failed ? fail(m, message->where, failed, m->begin, 0) : 0;
}

static int finish(Machine *m, const kw_pb_message *message) {
    if (message->form == KW_PB_TIMESTAMP || message->form == KW_PB_DURATION) return append_time(m, message);
    if (message->form == KW_PB_CLOSED_ENTRY) {
        int32_t value = message->first + 1; /* behind the key */
        const Slot *slot = &m->memory->slots[value];
        if (slot->is_set && !enum_entry(m, &m->program->fields[value], (int32_t)slot->number)) return 0;
    }
    for (int32_t i = message->first; i < message->first + message->fields; i++) {
        int failed = append_field(m, &m->program->fields[i], &m->memory->slots[i]);
        if (failed) return failed;
    }
    if (message->form == KW_PB_WRAPPER) return 0;
    int failed = kw_columns_room(m->columns, message->column);
    if (failed) return fail(m, message->where, failed, m->begin, 0);
    m->columns->columns[message->column].length++;
    return 0;
}

/* Appends one message, of no piece (NULL), or of all pieces of a slot. */
static int decode_message(Machine *m, const kw_pb_message *message, const Slot *pieces) {
    for (int32_t i = message->first; i < message->first + message->fields; i++) m->memory->slots[i].is_set = 0;
    if (pieces) {
        int32_t next = pieces->next;
        int failed = scan(m, message, pieces->data, pieces->data + pieces->size);
        while (!failed && next >= 0) {
            Piece piece = m->memory->pieces[next];
            failed = scan(m, message, piece.data, piece.data + piece.size);
            next = piece.next;
        }
        if (failed) return failed;
    }
    return finish(m, message);
}

/* --- values ------------------------------------------------------------------------------------------------------- */

/* The memory of a part: allocated with the first value, and again if another program has more fields. */
static Memory *memory_of(const kw_pb_program *program, kw_scratch *scratch) {
    size_t size = sizeof(Memory) + sizeof(Slot) * (size_t)program->field_count;
    if (scratch->size >= size) return scratch->memory;
    Memory *made = calloc(1, size);
    if (!made) return NULL;
    if (scratch->memory) scratch->release(scratch);
    made->slots = (Slot *)(made + 1);
    scratch->memory = made;
    scratch->size = size;
    return made;
}

static void release(kw_scratch *scratch) {
    Memory *memory = scratch->memory;
    if (memory) free(memory->pieces);
    free(memory);
}

/* Reads how many indexes there are. A single 0 stands for the list [0], and is read as its index, too. */
static const uint8_t *begin_indexes(const uint8_t *at, const uint8_t *end, int64_t *count) {
    const uint8_t *behind = kw_varlong(at, end, count);
    if (!behind || *count) return behind;
    *count = 1;
    return at;
}

static int skip_indexes(Machine *m, const uint8_t **data, const uint8_t *end) {
    const uint8_t *wanted = m->program->indexes, *last = wanted + m->program->indexes_size, *at = *data;
    int64_t left = 0, wanted_left = 0, index = 0, wanted_index = 0;
    const uint8_t *behind = begin_indexes(at, end, &left);
    wanted = begin_indexes(wanted, last, &wanted_left);
    for (; behind && left > 0; left--) {
        at = behind;
        behind = kw_varlong(at, end, &index);
        if (!behind) break;
        if (wanted_left) wanted = kw_varlong(wanted, last, &wanted_index);
        if (!wanted_left-- || index != wanted_index) return fail(m, 0, KW_PB_BAD_INDEXES, at, index);
    }
    if (!behind) return bad_varint(m, 0, at, end, 10);
    if (wanted_left) return fail(m, 0, KW_PB_BAD_OUTER, *data, wanted_left);
    *data = behind;
    return 0;
}

int kw_pb_decode(const void *program, kw_columns *columns, kw_scratch *scratch, const uint8_t *data, size_t size,
                 int64_t max_empty_items, kw_failure *failure) {
    Machine m = {program, columns, NULL, 0, data, failure};
    const uint8_t *at = data, *end = data + size;
    (void)max_empty_items;
    scratch->release = release;
    m.memory = memory_of(program, scratch);
    if (!m.memory) return fail(&m, 0, KW_COLUMNS_NO_MEMORY, data, 0);
    if (m.program->indexes) {
        int failed = skip_indexes(&m, &at, end);
        if (failed) return failed;
    }
    Slot piece = {.data = at, .size = end - at, .last = -1, .next = -1, .is_set = 1};
    return decode_message(&m, m.program->messages, &piece);
}
