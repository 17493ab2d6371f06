#include "kafwire/consumer/fetch/native/fast_path.h"

#include "kafwire/memory/native/bytes.h"
#include "kafwire/records/native/batch.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { SMALL = 64 << 10 }; /* bytes; larger frames take long to decode: the engine is notified at once */
/* Partitions and aborted transactions of one response: the engine may refuse a response with more. */
enum { MOST_ENTRIES = 1000000 };

typedef struct expected {
    uint8_t topic_id[16];
    int32_t partition;
    uint32_t generation;
    kw_place *place; /* NULL: a free slot */
    int64_t offset;
    uint64_t seen; /* number of the last response that had the partition */
    int used;      /* set once used: freed slots keep probe chains together */
} expected;

struct kw_fast_path {
    pthread_mutex_t lock;
    kw_queue *queue;
    expected *table; /* open addressing; `room` is a power of two */
    size_t room, used;
    uint64_t armed, taken_token, responses;
    int32_t session;
    const kw_partition_layout *layout;
    kw_taken *taken;
    int32_t taken_count;
};

/* ---- expected partitions, under the lock ---- */

static size_t hash_of(const uint8_t id[16], int32_t partition) {
    uint64_t a, b;
    memcpy(&a, id, 8);
    memcpy(&b, id + 8, 8);
    uint64_t h = (a ^ b ^ (uint32_t)partition) * 0x9E3779B97F4A7C15u;
    return (size_t)(h ^ h >> 29);
}

/* The slot of a partition, or else the first free one of its chain; NULL without a table. */
static expected *slot(kw_fast_path *fast_path, const uint8_t id[16], int32_t partition) {
    if (!fast_path->room) return NULL;
    expected *vacant = NULL;
    for (size_t i = hash_of(id, partition);; i++) {
        expected *entry = &fast_path->table[i & (fast_path->room - 1)];
        if (!entry->place) {
            if (!vacant) vacant = entry;
            if (!entry->used) return vacant;
        } else if (entry->partition == partition && !memcmp(entry->topic_id, id, 16)) {
            return entry;
        }
    }
}

static int grow(kw_fast_path *fast_path) {
    size_t old_room = fast_path->room, live = 0;
    for (size_t i = 0; i < old_room; i++) live += fast_path->table[i].place != NULL;
    size_t room = !old_room ? 32 : 4 * live < old_room ? old_room : 2 * old_room; /* most slots may have been freed */
    expected *old = fast_path->table, *table = calloc(room, sizeof *table);
    if (!table) return -1;
    fast_path->table = table;
    fast_path->room = room;
    fast_path->used = 0;
    for (size_t i = 0; i < old_room; i++) {
        if (!old[i].place) continue;
        *slot(fast_path, old[i].topic_id, old[i].partition) = old[i];
        fast_path->used++;
    }
    free(old);
    return 0;
}

kw_fast_path *kw_fast_path_new(kw_queue *queue) {
    kw_fast_path *fast_path = calloc(1, sizeof *fast_path);
    if (!fast_path) return NULL;
    pthread_mutex_init(&fast_path->lock, NULL);
    fast_path->queue = queue;
    return fast_path;
}

void kw_fast_path_free(kw_fast_path *fast_path) {
    if (!fast_path) return;
    pthread_mutex_destroy(&fast_path->lock);
    free(fast_path->table);
    free(fast_path->taken);
    free(fast_path);
}

int kw_fast_path_expect(kw_fast_path *fast_path, const uint8_t topic_id[16], int32_t partition, kw_place *place, uint32_t generation,
                   int64_t offset) {
    pthread_mutex_lock(&fast_path->lock);
    expected *entry = slot(fast_path, topic_id, partition);
    int failed = 0;
    if (!entry || (!entry->place && !entry->used && 2 * (fast_path->used + 1) > fast_path->room)) {
        failed = grow(fast_path);
        if (!failed) entry = slot(fast_path, topic_id, partition);
    }
    if (!failed) {
        fast_path->used += !entry->used;
        memcpy(entry->topic_id, topic_id, 16);
        entry->partition = partition;
        entry->generation = generation;
        entry->place = place;
        entry->offset = offset;
        entry->seen = 0;
        entry->used = 1;
    }
    pthread_mutex_unlock(&fast_path->lock);
    return failed;
}

int kw_fast_path_forget(kw_fast_path *fast_path, const uint8_t topic_id[16], int32_t partition, int32_t number, kw_taken *out) {
    int found = 0;
    pthread_mutex_lock(&fast_path->lock);
    expected *entry = slot(fast_path, topic_id, partition);
    if (entry && entry->place) entry->place = NULL;
    for (int32_t i = 0; i < fast_path->taken_count && !found; i++) {
        if (fast_path->taken[i].number != number) continue;
        *out = fast_path->taken[i];
        fast_path->taken[i] = fast_path->taken[--fast_path->taken_count];
        found = 1;
    }
    pthread_mutex_unlock(&fast_path->lock);
    return found;
}

void kw_fast_path_clear(kw_fast_path *fast_path) {
    pthread_mutex_lock(&fast_path->lock);
    if (fast_path->room) memset(fast_path->table, 0, fast_path->room * sizeof *fast_path->table);
    fast_path->used = 0;
    pthread_mutex_unlock(&fast_path->lock);
}

void kw_fast_path_arm(kw_fast_path *fast_path, uint64_t token, int32_t session, const kw_partition_layout *layout) {
    pthread_mutex_lock(&fast_path->lock);
    fast_path->armed = token;
    fast_path->session = session;
    fast_path->layout = layout;
    free(fast_path->taken);
    fast_path->taken = NULL;
    fast_path->taken_count = 0;
    pthread_mutex_unlock(&fast_path->lock);
}

kw_taken *kw_fast_path_taken(kw_fast_path *fast_path, uint64_t token, int32_t *count) {
    pthread_mutex_lock(&fast_path->lock);
    kw_taken *taken = NULL;
    *count = 0;
    if (fast_path->armed == token) fast_path->armed = 0;
    if (fast_path->taken && fast_path->taken_token == token) {
        taken = fast_path->taken;
        *count = fast_path->taken_count;
        fast_path->taken = NULL;
        fast_path->taken_count = 0;
    }
    pthread_mutex_unlock(&fast_path->lock);
    return taken;
}

/* ---- the response ---- */

typedef struct reader {
    const uint8_t *at, *end;
    int failed;
} reader;

static const uint8_t *bytes(reader *r, uint64_t size) {
    if (r->failed || size > (uint64_t)(r->end - r->at)) {
        r->failed = 1;
        return NULL;
    }
    const uint8_t *at = r->at;
    r->at += size;
    return at;
}

static int16_t i16(reader *r) {
    const uint8_t *at = bytes(r, 2);
    return at ? kw_be16(at) : 0;
}

static int32_t i32(reader *r) {
    const uint8_t *at = bytes(r, 4);
    return at ? kw_be32(at) : 0;
}

static uint32_t uvarint(reader *r) {
    uint32_t value;
    const uint8_t *behind = r->failed ? NULL : kw_uvarint(r->at, r->end, &value);
    if (!behind) {
        r->failed = 1;
        return 0;
    }
    r->at = behind;
    return value;
}

/* Read an empty tagged section. Tagged fields are rare and left to the engine. */
static void no_tags(reader *r) {
    if (uvarint(r)) r->failed = 1;
}

/* The elements of an array that may not be null. */
static uint64_t elements(reader *r) {
    uint64_t count = uvarint(r);
    if (count) return count - 1;
    r->failed = 1;
    return 0;
}

/* True if the batches at the start of data[0, size) may be taken. Left to the engine: damaged batches, batches before
 * magic 2, a first batch that ends before the requested offset, and slices without a complete batch. */
static int may_take(const uint8_t *data, size_t size, int64_t offset, int64_t high_watermark, kw_taken *out) {
    kw_batches found;
    const char *reason;
    if (kw_batches_read(data, size, offset, high_watermark, &found, &reason)) return 0;
    out->next_offset = found.next;
    out->size = found.size;
    out->leader_epoch = found.leader_epoch;
    return found.size > 0 && found.oldest_magic == 2 && found.first_end > offset;
}

typedef struct found {
    expected entry;
    const uint8_t *data;
    int64_t high_watermark, last_stable;
    kw_taken taken;
} found;

/* Read the whole envelope, and append the partitions that may be taken to *list. Returns their count; -1: the envelope
 * is not sound, or there is no memory. */
static int32_t find(kw_fast_path *fast_path, kw_buf *frame, found **list) {
    reader reading = {frame->data, frame->data + frame->size, 0}, *r = &reading;
    const kw_partition_layout *layout = fast_path->layout;
    int32_t count = 0, room = 0;
    uint64_t entries = 0, response = ++fast_path->responses;
    i32(r); /* the correlation id */
    no_tags(r);
    i32(r); /* the throttle time */
    if (i16(r)) return -1;
    int32_t session = i32(r);
    if (fast_path->session && session && session != fast_path->session) return -1;
    for (uint64_t topics = elements(r); topics && !r->failed; topics--) {
        const uint8_t *id = bytes(r, 16);
        for (uint64_t partitions = elements(r); partitions && !r->failed; partitions--) {
            const uint8_t *head = bytes(r, (uint32_t)layout->head);
            uint64_t aborted = uvarint(r);
            for (uint64_t i = 1; i < aborted && !r->failed; i++) {
                bytes(r, 16);
                no_tags(r);
            }
            const uint8_t *middle = bytes(r, (uint32_t)layout->middle);
            uint64_t size = uvarint(r);
            const uint8_t *data = size > 1 ? bytes(r, size - 1) : NULL;
            bytes(r, (uint32_t)layout->tail);
            no_tags(r);
            entries += 1 + aborted;
            if (r->failed || entries > MOST_ENTRIES) return -1;
            expected *entry = slot(fast_path, id, kw_be32(head + layout->partition));
            if (!entry || !entry->place) {
                if (data) return -1; /* records that were not requested */
                continue;
            }
            if (entry->seen == response) return -1; /* the partition stands twice in the response */
            entry->seen = response;
            if (kw_be16(head + layout->error_code) || aborted > 1 || !data) continue;
            if (layout->preferred_read_replica >= 0 && kw_be32(middle + layout->preferred_read_replica) >= 0) continue;
            if (count == room) {
                room = room ? 2 * room : 16;
                found *more = realloc(*list, (size_t)room * sizeof *more);
                if (!more) return -1;
                *list = more;
            }
            found *one = &(*list)[count];
            one->entry = *entry;
            one->data = data;
            one->high_watermark = kw_be64(head + layout->high_watermark);
            one->last_stable = kw_be64(head + layout->last_stable_offset);
            count += may_take(data, size - 1, entry->offset, one->high_watermark, &one->taken);
        }
        no_tags(r);
    }
    no_tags(r);
    return r->failed || r->at != r->end ? -1 : count;
}

int kw_fast_path_take(void *context, uint64_t token, kw_buf *frame) {
    kw_fast_path *fast_path = context;
    found *list = NULL;
    int waited_for = 0;
    pthread_mutex_lock(&fast_path->lock);
    if (token && fast_path->armed == token) {
        fast_path->armed = 0;
        int32_t count = find(fast_path, frame, &list);
        kw_taken *taken = count > 0 ? malloc((size_t)count * sizeof *taken) : NULL;
        for (int32_t i = 0; taken && i < count; i++) {
            const expected *entry = &list[i].entry;
            kw_records slice = {.frame = frame,
                                .data = list[i].data,
                                .size = list[i].taken.size,
                                .place = entry->place,
                                .generation = entry->generation,
                                .start = entry->offset,
                                .end = INT64_MAX};
            kw_buf_ref(frame);
            kw_place_fed(fast_path->queue, entry->place, list[i].high_watermark, list[i].last_stable);
            if (kw_queue_push(fast_path->queue, &slice)) {
                kw_buf_unref(frame); /* no memory: the engine queues it */
                continue;
            }
            kw_taken *one = &taken[fast_path->taken_count++];
            *one = list[i].taken;
            one->number = kw_place_number(entry->place);
            one->generation = entry->generation;
            one->start = entry->offset;
            if (frame->size <= SMALL && !waited_for) waited_for = kw_queue_owe(fast_path->queue, entry->place);
        }
        /* Seal here, as the engine may never see the response. Slices that it queues of the same frame are charged as
         * another run. */
        if (taken) kw_queue_seal(fast_path->queue);
        fast_path->taken = taken;
        fast_path->taken_token = token;
    }
    pthread_mutex_unlock(&fast_path->lock);
    free(list);
    return waited_for;
}
