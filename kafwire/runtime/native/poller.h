/* Waits until one of many descriptors can be read or written: epoll on Linux, poll elsewhere (KW_USE_POLL: poll on
 * Linux too, for tests).
 *
 * One thread uses a poller. Other threads wake it by a descriptor that it also watches. Only the loop includes this. */
#ifndef KAFWIRE_POLLER_H
#define KAFWIRE_POLLER_H

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#if defined(__linux__) && !defined(KW_USE_POLL)
#define KW_EPOLL 1
#include <sys/epoll.h>
#include <sys/eventfd.h>
#else
#define KW_EPOLL 0
#include <poll.h>
#endif

/* Also sets close-on-exec. 0, or -1 with errno. */
static inline int kw_set_nonblocking(int fd) {
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) < 0) return -1;
    return 0;
}

/* ---- wake descriptors: an eventfd, or a pipe where there is none ---- */

static inline int kw_wake_open(int *read_end, int *write_end) {
#if KW_EPOLL
    *read_end = *write_end = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return *read_end < 0 ? -1 : 0;
#else
    int ends[2];
    if (pipe(ends)) return -1;
    *read_end = ends[0];
    *write_end = ends[1];
    return kw_set_nonblocking(ends[0]) || kw_set_nonblocking(ends[1]) ? -1 : 0;
#endif
}

static inline void kw_wake_close(int *read_end, int *write_end) {
    if (*read_end >= 0) close(*read_end);
    if (*write_end >= 0 && *write_end != *read_end) close(*write_end);
    *read_end = *write_end = -1;
}

/* Eight bytes suit both kinds. A full pipe or counter is already readable, which is enough for a wake. */
static inline void kw_wake_set(int write_end) {
    uint64_t one = 1;
    while (write(write_end, &one, sizeof one) < 0 && errno == EINTR) continue;
}

static inline void kw_wake_clear(int read_end) {
    uint64_t some[8];
    while (read(read_end, some, KW_EPOLL ? sizeof some[0] : sizeof some) < 0 && errno == EINTR) continue;
}

/* ---- the poller ---- */

enum { KW_READABLE = 1, KW_WRITABLE = 2 };
enum { KW_POLLER_EVENTS = 64 };

/* A descriptor to watch, embedded in its owner. Callers set only `fd`. */
typedef struct kw_watched {
    int fd;
    int interest, slot;
} kw_watched;

typedef struct kw_event {
    kw_watched *watched; /* NULL: the wake descriptor */
    int ready;
} kw_event;

typedef struct kw_poller {
#if KW_EPOLL
    int fd;
#else
    struct pollfd *polled;
    kw_watched **watched;
    int count, room;
    unsigned turn;
#endif
} kw_poller;

#if KW_EPOLL
#define KW_POLLER_CLOSED ((kw_poller){.fd = -1})
#else
#define KW_POLLER_CLOSED ((kw_poller){.count = 0})
#endif

#if KW_EPOLL
/* 0, or -1 with errno. */
static inline int kw_poller_open(kw_poller *poller, int wake_read) {
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = NULL};
    poller->fd = epoll_create1(EPOLL_CLOEXEC);
    if (poller->fd < 0) return -1;
    return epoll_ctl(poller->fd, EPOLL_CTL_ADD, wake_read, &e);
}

/* Also for a closed one, or one that could not be opened. */
static inline void kw_poller_close(kw_poller *poller) {
    if (poller->fd >= 0) close(poller->fd);
    poller->fd = -1;
}

/* Watch for these events from now on; 0: stop watching. 0, or -1 with errno. */
static inline int kw_poller_watch(kw_poller *poller, kw_watched *watched, int interest) {
    if (interest == watched->interest) return 0;
    uint32_t events = (interest & KW_READABLE ? EPOLLIN : 0u) | (interest & KW_WRITABLE ? EPOLLOUT : 0u);
    struct epoll_event e = {.events = events, .data.ptr = watched};
    int operation = !interest ? EPOLL_CTL_DEL : watched->interest ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    if (epoll_ctl(poller->fd, operation, watched->fd, &e)) return -1;
    watched->interest = interest;
    return 0;
}

/* Waits. Returns the number of events, at most KW_POLLER_EVENTS, or -1 with errno. */
static inline int kw_poller_wait(kw_poller *poller, kw_event *events) {
    struct epoll_event ready[KW_POLLER_EVENTS];
    int n = epoll_wait(poller->fd, ready, KW_POLLER_EVENTS, -1);
    for (int i = 0; i < n; i++) {
        uint32_t what = ready[i].events;
        events[i].watched = ready[i].data.ptr;
        events[i].ready = (what & (EPOLLIN | EPOLLERR | EPOLLHUP) ? KW_READABLE : 0) |
                          (what & (EPOLLOUT | EPOLLERR | EPOLLHUP) ? KW_WRITABLE : 0);
    }
    return n;
}
#else
static inline int kw_poller_open(kw_poller *poller, int wake_read) {
    *poller = (kw_poller){.room = 16, .count = 1};
    poller->polled = calloc(16, sizeof *poller->polled);
    poller->watched = calloc(16, sizeof *poller->watched);
    if (!poller->polled || !poller->watched) return errno = ENOMEM, -1;
    poller->polled[0] = (struct pollfd){.fd = wake_read, .events = POLLIN};
    return 0;
}

static inline void kw_poller_close(kw_poller *poller) {
    free(poller->polled);
    free(poller->watched);
    poller->polled = NULL;
    poller->watched = NULL;
}

static inline int kw_poller_watch(kw_poller *poller, kw_watched *watched, int interest) {
    if (interest == watched->interest) return 0;
    if (!watched->interest) {
        if (poller->count == poller->room) {
            int room = poller->room * 2;
            void *polled = realloc(poller->polled, (size_t)room * sizeof *poller->polled);
            if (polled) poller->polled = polled;
            void *owners = realloc(poller->watched, (size_t)room * sizeof *poller->watched);
            if (owners) poller->watched = owners;
            if (!polled || !owners) return errno = ENOMEM, -1;
            poller->room = room;
        }
        watched->slot = poller->count++;
        poller->watched[watched->slot] = watched;
    } else if (!interest) {
        int last = --poller->count;
        poller->polled[watched->slot] = poller->polled[last];
        poller->watched[watched->slot] = poller->watched[last];
        poller->watched[watched->slot]->slot = watched->slot;
        watched->interest = 0;
        return 0;
    }
    short wanted = (short)((interest & KW_READABLE ? POLLIN : 0) | (interest & KW_WRITABLE ? POLLOUT : 0));
    poller->polled[watched->slot] = (struct pollfd){.fd = watched->fd, .events = wanted};
    watched->interest = interest;
    return 0;
}

/* Ready ones beyond KW_POLLER_EVENTS are left for the next call. Each search starts one place further, so that none is
 * left forever. */
static inline int kw_poller_wait(kw_poller *poller, kw_event *events) {
    static const short trouble = POLLERR | POLLHUP | POLLNVAL;
    int n = poll(poller->polled, (nfds_t)poller->count, -1), filled = 0;
    if (n < 0) return n;
    if (poller->polled[0].revents) events[filled++] = (kw_event){NULL, KW_READABLE};
    int others = poller->count - 1;
    int start = others ? (int)(poller->turn++ % (unsigned)others) : 0;
    for (int i = 0; i < others && filled < KW_POLLER_EVENTS; i++) {
        int slot = 1 + (start + i) % others;
        short what = poller->polled[slot].revents;
        int ready = (what & (POLLIN | trouble) ? KW_READABLE : 0) | (what & (POLLOUT | trouble) ? KW_WRITABLE : 0);
        if (ready) events[filled++] = (kw_event){poller->watched[slot], ready};
    }
    return filled;
}
#endif

#endif
