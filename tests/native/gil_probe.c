/* A layer over an Arrow stream that counts how often its consumer calls get_next with the GIL, and how often without. */
#include "kafwire/records/native/arrow.h"

static int (*has_gil)(void); /* PyGILState_Check */
static int (*next)(struct ArrowArrayStream *, struct ArrowArray *);
int calls[2]; /* without the GIL, with it */

static int probed_next(struct ArrowArrayStream *stream, struct ArrowArray *out) {
    calls[has_gil() != 0]++;
    return next(stream, out);
}

/* One stream per process: its function is kept here. */
void probe(struct ArrowArrayStream *stream, int (*check)(void)) {
    has_gil = check;
    next = stream->get_next;
    stream->get_next = probed_next;
}
