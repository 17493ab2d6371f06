#include "kafwire/consumer/fetch/native/queue.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct kw_charge {
    kw_buf *frame; /* only for comparison */
    size_t bytes;
    size_t live; /* bytes of the slices that are not read yet */
    int holders; /* slices, and the queue while it is open */
};

struct kw_place {
    kw_records *first, **last;
    void *owner;
    int32_t number;
    int32_t slices;
    size_t bytes;
    int64_t position;  /* the offset after the last record that the reader returned */
    int64_t processed; /* the offset after the last record that counts as processed */
    int64_t jump;      /* the position once the queued slices are read; or -1 */
    int64_t cut;       /* end of the wanted offsets of the lent slice */
    int64_t high_watermark, last_stable; /* of the last response that the I/O thread queued; or -1 */
    uint32_t generation;
    int paused, claimed, failed;
    int lent;    /* a reader has popped a slice of it */
    int in_ring; /* it waits for a reader */
    int watched, is_noticed, is_touched;
    int waiting; /* count of waiting readers of this place alone */
    kw_place *next_ready, *next_noticed, *next_touched;
};

struct kw_queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    kw_place **places;
    int32_t count, room;
    kw_place *ring, **ring_end;
    kw_place *noticed;
    kw_place *touched; /* read since the last settlement */
    kw_charge *open;
    size_t bytes;
    int starved, ended, failed, closed;
    int waiting, owed; /* count of waiting readers of the ring; a reader must notify the engine */
    int woken;
    int missed;        /* kw_queue_ready returned 0: its caller waits for a notification from the engine */
};

kw_queue *kw_queue_new(void) {
    kw_queue *queue = calloc(1, sizeof *queue);
    if (!queue) return NULL;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
#ifndef __APPLE__
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
#endif
    pthread_cond_init(&queue->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&queue->lock, NULL);
    queue->ring_end = &queue->ring;
    return queue;
}

/* --- charges and slices, under the lock ------------------------------------------------------------------------- */

static void release(kw_queue *queue, kw_charge *charge) {
    if (!charge || --charge->holders) return;
    queue->bytes -= charge->bytes;
    free(charge);
}

static void drop(kw_queue *queue, kw_records *slice) {
    if (slice->charge) slice->charge->live -= slice->size;
    release(queue, slice->charge);
    kw_buf_unref(slice->frame);
    free(slice->aborted);
    free(slice);
}

static void drop_all(kw_queue *queue, kw_place *place) {
    while (place->first) {
        kw_records *slice = place->first;
        place->first = slice->next;
        drop(queue, slice);
    }
    place->last = &place->first;
    place->slices = 0;
    place->bytes = 0;
}

static int charge_frame(kw_queue *queue, kw_records *slice) {
    if (!queue->open || queue->open->frame != slice->frame) {
        kw_charge *charge = malloc(sizeof *charge);
        if (!charge) return -1;
        *charge = (kw_charge){.frame = slice->frame, .bytes = slice->frame->capacity, .holders = 1};
        release(queue, queue->open);
        queue->open = charge;
        queue->bytes += charge->bytes;
    }
    slice->charge = queue->open;
    slice->charge->holders++;
    slice->charge->live += slice->size;
    return 0;
}

/* --- the ring, under the lock ----------------------------------------------------------------------------------- */

static int has_something(const kw_place *place) {
    return !place->lent && !place->paused && (place->first || place->failed);
}

static void offer(kw_queue *queue, kw_place *place) {
    if (place->in_ring || place->claimed || !has_something(place)) return;
    place->in_ring = 1;
    place->next_ready = NULL;
    *queue->ring_end = place;
    queue->ring_end = &place->next_ready;
}

static void offer_first(kw_queue *queue, kw_place *place) {
    if (!queue->ring || place->in_ring || place->claimed || !has_something(place)) return;
    place->in_ring = 1;
    place->next_ready = queue->ring;
    queue->ring = place;
}

static void leave_ring(kw_queue *queue) {
    kw_place *place = queue->ring;
    queue->ring = place->next_ready;
    if (!queue->ring) queue->ring_end = &queue->ring;
    place->in_ring = 0;
}

/* The ring's first place that is readable. Places that were emptied, paused or claimed meanwhile leave the ring. */
static kw_place *first_ready(kw_queue *queue) {
    for (kw_place *place; (place = queue->ring); leave_ring(queue))
        if (!place->claimed && has_something(place)) return place;
    return NULL;
}

static kw_place *ready(kw_queue *queue, kw_place *place) {
    if (!place) return first_ready(queue);
    return has_something(place) ? place : NULL;
}

/* --- places ----------------------------------------------------------------------------------------------------- */

kw_place *kw_queue_add(kw_queue *queue, void *owner) {
    kw_place *place = calloc(1, sizeof *place);
    if (!place) return NULL;
    place->owner = owner;
    place->last = &place->first;
    place->jump = place->high_watermark = place->last_stable = -1;
    place->position = place->processed = -1;
    place->cut = INT64_MAX;
    pthread_mutex_lock(&queue->lock);
    if (queue->count == queue->room) {
        int32_t room = queue->room ? 2 * queue->room : 16;
        kw_place **places = realloc(queue->places, room * sizeof *places);
        if (!places) {
            pthread_mutex_unlock(&queue->lock);
            free(place);
            return NULL;
        }
        queue->places = places;
        queue->room = room;
    }
    place->number = queue->count;
    queue->places[queue->count++] = place;
    pthread_mutex_unlock(&queue->lock);
    return place;
}

kw_place *kw_queue_place(kw_queue *queue, int32_t number) {
    pthread_mutex_lock(&queue->lock);
    kw_place *place = number >= 0 && number < queue->count ? queue->places[number] : NULL;
    pthread_mutex_unlock(&queue->lock);
    return place;
}

void *kw_place_owner(const kw_place *place) { return place->owner; }
int32_t kw_place_number(const kw_place *place) { return place->number; }

void kw_queue_free(kw_queue *queue) {
    if (!queue) return;
    for (int32_t i = 0; i < queue->count; i++) {
        drop_all(queue, queue->places[i]);
        free(queue->places[i]);
    }
    release(queue, queue->open);
    free(queue->places);
    pthread_cond_destroy(&queue->changed);
    pthread_mutex_destroy(&queue->lock);
    free(queue);
}

/* --- slices in and out ------------------------------------------------------------------------------------------ */

int kw_queue_push(kw_queue *queue, const kw_records *slice) {
    kw_records *copy = malloc(sizeof *copy);
    if (!copy) return -1;
    *copy = *slice;
    copy->next = NULL;
    copy->charge = NULL;
    kw_place *place = copy->place;
    int failed = 0;
    pthread_mutex_lock(&queue->lock);
    if (queue->closed || copy->generation != place->generation) {
        drop(queue, copy);
    } else if (charge_frame(queue, copy)) {
        free(copy);
        failed = -1;
    } else {
        *place->last = copy;
        place->last = &copy->next;
        place->slices++;
        place->bytes += copy->size;
        place->jump = -1;
        offer(queue, place);
        pthread_cond_broadcast(&queue->changed);
    }
    pthread_mutex_unlock(&queue->lock);
    return failed;
}

void kw_queue_seal(kw_queue *queue) {
    pthread_mutex_lock(&queue->lock);
    release(queue, queue->open);
    queue->open = NULL;
    pthread_mutex_unlock(&queue->lock);
}

static void wait_until(kw_queue *queue, kw_place *place, int wait_ms) {
    struct timespec until;
#ifdef __APPLE__
    clock_gettime(CLOCK_REALTIME, &until);
#else
    clock_gettime(CLOCK_MONOTONIC, &until);
#endif
    until.tv_sec += wait_ms / 1000;
    until.tv_nsec += (wait_ms % 1000) * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000L;
    }
    int *waiting = place ? &place->waiting : &queue->waiting;
    ++*waiting;
    while (!ready(queue, place) && !queue->ended && !queue->failed && !queue->closed && (place || !queue->woken))
        if (pthread_cond_timedwait(&queue->changed, &queue->lock, &until)) break;
    --*waiting;
}

static void take_first(kw_place *place, kw_records *out) {
    place->cut = INT64_MAX;
    kw_records *slice = place->first;
    place->first = slice->next;
    if (!place->first) place->last = &place->first;
    place->slices--;
    place->bytes -= slice->size;
    *out = *slice;
    out->next = NULL;
    free(slice);
}

static void lend(kw_queue *queue, kw_place *place, kw_records *out) {
    if (place == queue->ring) leave_ring(queue); /* the other places have their turn first */
    take_first(place, out);
    place->lent = 1;
}

int kw_queue_pop(kw_queue *queue, kw_place *place, kw_records *out, int wait_ms) {
    int outcome;
    pthread_mutex_lock(&queue->lock);
    if (wait_ms > 0) wait_until(queue, place, wait_ms);
    kw_place *found = ready(queue, place);
    if (found && !found->first) {
        if (found == queue->ring) leave_ring(queue);
        memset(out, 0, sizeof *out);
        out->place = found;
        offer(queue, found);
        outcome = KW_QUEUE_PLACE_FAILED;
    } else if (found) {
        lend(queue, found, out);
        outcome = KW_QUEUE_RECORDS;
    } else if (queue->failed && !queue->closed) {
        outcome = KW_QUEUE_FAILED;
    } else {
        outcome = queue->ended || queue->closed ? KW_QUEUE_ENDED : KW_QUEUE_IDLE;
    }
    pthread_mutex_unlock(&queue->lock);
    return outcome;
}

static int look_at(const kw_records *slice, kw_records *out) {
    if (!slice) return 0;
    *out = *slice;
    kw_buf_ref(slice->frame);
    return 1;
}

int kw_place_look(kw_queue *queue, kw_place *place, uint32_t generation, int64_t offset, kw_records *out) {
    pthread_mutex_lock(&queue->lock);
    int is_alone = place->claimed || !queue->ring || (queue->ring == place && !place->next_ready);
    const kw_records *slice = is_alone && place->generation == generation ? place->first : NULL;
    while (slice && slice->start != offset) slice = slice->next;
    int found = look_at(slice, out);
    pthread_mutex_unlock(&queue->lock);
    return found;
}

int kw_queue_look(kw_queue *queue, kw_place *const *seen, int count, kw_records *out) {
    pthread_mutex_lock(&queue->lock);
    kw_place *place = queue->ring;
    for (int i = 0; place && i < count;) {
        if (place->claimed || !has_something(place) || place == seen[i]) {
            place = place->next_ready;
            i = 0;
        } else {
            i++;
        }
    }
    int found = place && !place->claimed && has_something(place) && look_at(place->first, out);
    pthread_mutex_unlock(&queue->lock);
    return found;
}

int kw_queue_pop_same(kw_queue *queue, kw_place *place, const kw_records *same, kw_records *out) {
    pthread_mutex_lock(&queue->lock);
    kw_place *found = ready(queue, place);
    const kw_records *first = found && found == same->place ? found->first : NULL;
    /* (the caller refers to the frame, so equal addresses mean the same slice; a slice that was cut has another end) */
    int is_same = !queue->woken && first && first->data == same->data && first->start == same->start && first->end == same->end;
    if (is_same) lend(queue, found, out);
    pthread_mutex_unlock(&queue->lock);
    return is_same;
}

/* Release the charge of a slice that was read. Returns 1 if the caller must notify the engine. */
static int settle(kw_queue *queue, kw_records *slice) {
    kw_place *place = slice->place;
    int tell = queue->starved;
    queue->starved = 0;
    if (place->watched) {
        place->watched = 0;
        if (!place->is_noticed) {
            place->is_noticed = 1;
            place->next_noticed = queue->noticed;
            queue->noticed = place;
        }
        tell = 1;
    }
    if (slice->charge) slice->charge->live -= slice->size;
    release(queue, slice->charge);
    slice->charge = NULL;
    return tell;
}

static void clear(kw_records *slice) {
    kw_buf_unref(slice->frame);
    free(slice->aborted);
    slice->frame = NULL;
    slice->aborted = NULL;
}

static void move_to(kw_queue *queue, kw_place *place, int64_t position) {
    place->position = position;
    if (place->is_touched) return;
    place->is_touched = 1;
    place->next_touched = queue->touched;
    queue->touched = place;
}

static void settle_jump(kw_queue *queue, kw_place *place) {
    if (place->jump < 0 || place->first || place->lent) return;
    if (place->jump != place->position) move_to(queue, place, place->jump); /* else the jump passes no records */
    place->jump = -1;
}

int kw_queue_next(kw_queue *queue, kw_records *slice, int64_t offset) {
    kw_place *place = slice->place;
    pthread_mutex_lock(&queue->lock);
    int there = !queue->closed && !place->paused && slice->generation == place->generation && place->first &&
                place->first->start == offset;
    kw_records old = *slice;
    int tell = 0;
    if (there) {
        move_to(queue, place, offset);
        tell = settle(queue, &old);
        take_first(place, slice);
    }
    pthread_mutex_unlock(&queue->lock);
    if (there) clear(&old);
    return there ? 1 + tell : 0;
}

int kw_queue_done(kw_queue *queue, kw_records *slice, size_t used, int64_t position, int again) {
    kw_place *place = slice->place;
    kw_records *rest = used < slice->size ? malloc(sizeof *rest) : NULL;
    int tell = 0, current;
    pthread_mutex_lock(&queue->lock);
    current = !queue->closed && slice->generation == place->generation;
    if (current && position != place->position) move_to(queue, place, position);
    if (current && rest) {
        slice->charge->live -= used;
        *rest = *slice;
        rest->data += used;
        rest->size -= used;
        if (rest->start < position) rest->start = position; /* a rest without wanted records must not move it back */
        if (rest->end > place->cut) rest->end = place->cut;
        rest->next = place->first;
        if (!place->first) place->last = &rest->next;
        place->first = rest;
        place->slices++;
        place->bytes += rest->size;
    } else {
        /* (without memory for the rest the place fails: unread records must not be skipped) */
        if (current && used < slice->size) place->failed = 1;
        tell = settle(queue, slice);
    }
    place->lent = 0;
    settle_jump(queue, place);
    if (again) offer_first(queue, place);
    offer(queue, place);
    if (has_something(place)) {
        pthread_cond_broadcast(&queue->changed);
        tell |= queue->missed; /* a caller of kw_queue_ready, while the place was lent, waits for this notification */
        queue->missed = 0;
    }
    pthread_mutex_unlock(&queue->lock);
    if (!current || !rest) {
        clear(slice);
        free(rest);
    }
    memset(slice, 0, sizeof *slice);
    return (tell ? KW_DONE_TELL : 0) | (current ? 0 : KW_DONE_STALE);
}

uint32_t kw_queue_refuse(kw_queue *queue, kw_records *slice, int64_t position) {
    kw_place *place = slice->place;
    uint32_t generation = 0;
    pthread_mutex_lock(&queue->lock);
    if (!queue->closed && slice->generation == place->generation) {
        drop_all(queue, place);
        place->failed = 0;
        place->jump = -1;
        place->position = position;
        generation = ++place->generation;
    }
    settle(queue, slice);
    place->lent = 0;
    offer(queue, place); /* the place has slices again if it was reset and fed meanwhile */
    if (has_something(place)) pthread_cond_broadcast(&queue->changed);
    queue->missed = 0;
    pthread_mutex_unlock(&queue->lock);
    clear(slice);
    memset(slice, 0, sizeof *slice);
    return generation;
}

int kw_queue_owe(kw_queue *queue, kw_place *place) {
    pthread_mutex_lock(&queue->lock);
    int waits = (place->claimed ? place->waiting : queue->waiting) > 0 && has_something(place);
    if (waits) queue->owed = 1;
    pthread_mutex_unlock(&queue->lock);
    return waits;
}

int kw_queue_owed(kw_queue *queue) {
    pthread_mutex_lock(&queue->lock);
    int owed = queue->owed;
    queue->owed = 0;
    pthread_mutex_unlock(&queue->lock);
    return owed;
}

/* --- the engine's side ------------------------------------------------------------------------------------------ */

size_t kw_queue_bytes(kw_queue *queue, int starved) {
    pthread_mutex_lock(&queue->lock);
    if (starved) queue->starved = 1;
    size_t bytes = queue->bytes;
    pthread_mutex_unlock(&queue->lock);
    return bytes;
}

static void move_out(kw_queue *queue, kw_records *slice) {
    kw_charge *charge = malloc(sizeof *charge);
    kw_buf *copy = charge ? kw_buf_new(slice->frame->pool, slice->size) : NULL;
    if (!copy) {
        free(charge);
        return;
    }
    memcpy(copy->data, slice->data, slice->size);
    copy->size = slice->size;
    *charge = (kw_charge){.frame = copy, .bytes = copy->capacity, .live = slice->size, .holders = 1};
    slice->charge->live -= slice->size;
    release(queue, slice->charge);
    kw_buf_unref(slice->frame);
    slice->frame = copy;
    slice->data = copy->data;
    slice->charge = charge;
    queue->bytes += charge->bytes;
}

void kw_queue_compact(kw_queue *queue) {
    pthread_mutex_lock(&queue->lock);
    for (int32_t i = 0; i < queue->count; i++)
        for (kw_records *slice = queue->places[i]->first; slice; slice = slice->next)
            /* Copies of less than half a frame have, together, less capacity than the frame. */
            if (slice->charge->live < slice->frame->size / 2) move_out(queue, slice);
    pthread_mutex_unlock(&queue->lock);
}

uint32_t kw_place_reset(kw_queue *queue, kw_place *place, int64_t position) {
    pthread_mutex_lock(&queue->lock);
    drop_all(queue, place);
    place->failed = 0;
    place->jump = -1;
    place->position = place->processed = position;
    uint32_t generation = ++place->generation;
    pthread_mutex_unlock(&queue->lock);
    return generation;
}

void kw_place_cut(kw_queue *queue, kw_place *place, int64_t offset) {
    pthread_mutex_lock(&queue->lock);
    kw_records **link = &place->first;
    while (*link) {
        kw_records *slice = *link;
        if (slice->start < offset) {
            if (slice->end > offset) slice->end = offset;
            link = &slice->next;
            continue;
        }
        *link = slice->next;
        place->slices--;
        place->bytes -= slice->size;
        drop(queue, slice);
    }
    place->last = link;
    place->failed = 0;
    if (place->cut > offset) place->cut = offset;
    place->jump = offset;
    settle_jump(queue, place);
    pthread_mutex_unlock(&queue->lock);
}

int64_t kw_place_position(kw_queue *queue, kw_place *place) {
    pthread_mutex_lock(&queue->lock);
    int64_t position = place->position;
    pthread_mutex_unlock(&queue->lock);
    return position;
}

void kw_place_fed(kw_queue *queue, kw_place *place, int64_t high_watermark, int64_t last_stable) {
    pthread_mutex_lock(&queue->lock);
    place->high_watermark = high_watermark;
    place->last_stable = last_stable;
    pthread_mutex_unlock(&queue->lock);
}

int64_t kw_place_end(kw_queue *queue, kw_place *place, int committed_only) {
    pthread_mutex_lock(&queue->lock);
    int64_t end = committed_only ? place->last_stable : place->high_watermark;
    pthread_mutex_unlock(&queue->lock);
    return end;
}

int64_t kw_place_processed(kw_queue *queue, kw_place *place) {
    pthread_mutex_lock(&queue->lock);
    int64_t processed = place->processed;
    pthread_mutex_unlock(&queue->lock);
    return processed;
}

void kw_place_process(kw_queue *queue, kw_place *place, int64_t offset, int64_t generation) {
    pthread_mutex_lock(&queue->lock);
    if (generation < 0 || (uint32_t)generation == place->generation) place->processed = offset;
    pthread_mutex_unlock(&queue->lock);
}

void kw_queue_settle(kw_queue *queue, kw_place *only) {
    kw_place **link = &queue->touched;
    pthread_mutex_lock(&queue->lock);
    while (*link) {
        kw_place *place = *link;
        if (only ? place != only : place->claimed) {
            link = &place->next_touched;
            continue;
        }
        place->processed = place->position;
        place->is_touched = 0;
        *link = place->next_touched;
    }
    pthread_mutex_unlock(&queue->lock);
}

int kw_place_in_hand(kw_queue *queue, kw_place *place) {
    pthread_mutex_lock(&queue->lock);
    int waits = (place->claimed ? place->waiting : queue->waiting) > 0;
    int in_hand = place->lent || (place->is_touched && !waits);
    pthread_mutex_unlock(&queue->lock);
    return in_hand;
}

int32_t kw_place_queued(kw_queue *queue, kw_place *place, size_t *bytes, int watch) {
    pthread_mutex_lock(&queue->lock);
    int32_t slices = place->slices + place->lent;
    *bytes = place->bytes;
    if (watch) place->watched = 1;
    pthread_mutex_unlock(&queue->lock);
    return slices;
}

kw_place *kw_queue_noticed(kw_queue *queue) {
    pthread_mutex_lock(&queue->lock);
    kw_place *place = queue->noticed;
    if (place) {
        queue->noticed = place->next_noticed;
        place->is_noticed = 0;
    }
    pthread_mutex_unlock(&queue->lock);
    return place;
}

static void set_on_place(kw_queue *queue, kw_place *place, int *flag, int value) {
    pthread_mutex_lock(&queue->lock);
    *flag = value;
    offer(queue, place);
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
}
void kw_place_pause(kw_queue *queue, kw_place *place, int paused) {
    set_on_place(queue, place, &place->paused, paused);
}
void kw_place_claim(kw_queue *queue, kw_place *place, int claimed) {
    pthread_mutex_lock(&queue->lock);
    /* One reader's records in hand must not count as processed because another reader reads on. */
    for (kw_place **link = &queue->touched; place->is_touched && *link; link = &(*link)->next_touched) {
        if (*link != place) continue;
        *link = place->next_touched;
        place->is_touched = 0;
        break;
    }
    pthread_mutex_unlock(&queue->lock);
    set_on_place(queue, place, &place->claimed, claimed);
}

void kw_place_fail(kw_queue *queue, kw_place *place, uint32_t generation) {
    pthread_mutex_lock(&queue->lock);
    if (generation == place->generation && !queue->closed) {
        place->failed = 1;
        offer(queue, place);
        pthread_cond_broadcast(&queue->changed);
    }
    pthread_mutex_unlock(&queue->lock);
}

int kw_queue_ready(kw_queue *queue, kw_place *place, size_t *size) {
    pthread_mutex_lock(&queue->lock);
    kw_place *found = ready(queue, place);
    *size = found && found->first ? found->first->size : 0;
    int is_ready = found || queue->ended || queue->failed || queue->closed;
    if (!is_ready) queue->missed = 1;
    pthread_mutex_unlock(&queue->lock);
    return is_ready;
}

static void set_flag(kw_queue *queue, int *flag) {
    pthread_mutex_lock(&queue->lock);
    *flag = 1;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
}
void kw_queue_wake(kw_queue *queue) { set_flag(queue, &queue->woken); }
int kw_queue_woken(kw_queue *queue) {
    pthread_mutex_lock(&queue->lock);
    int woken = queue->woken;
    queue->woken = 0;
    pthread_mutex_unlock(&queue->lock);
    return woken;
}
void kw_queue_end(kw_queue *queue) { set_flag(queue, &queue->ended); }
void kw_queue_fail(kw_queue *queue) { set_flag(queue, &queue->failed); }

void kw_queue_close(kw_queue *queue) {
    pthread_mutex_lock(&queue->lock);
    for (int32_t i = 0; i < queue->count; i++) drop_all(queue, queue->places[i]);
    queue->closed = 1;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
}
