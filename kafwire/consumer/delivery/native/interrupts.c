#include "kafwire/consumer/delivery/native/interrupts.h"

#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sigaction before; /* written only while `on_interrupt` is not installed */
static int count;
static int watchers; /* count of streams between enter and leave */

static void on_interrupt(int number, siginfo_t *info, void *context) {
    __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED);
    if (before.sa_flags & SA_SIGINFO)
        before.sa_sigaction(number, info, context);
    else
        before.sa_handler(number);
}

static int is_ours(const struct sigaction *action) {
    return (action->sa_flags & SA_SIGINFO) && action->sa_sigaction == on_interrupt;
}

static int has_function(const struct sigaction *action) {
    return (action->sa_flags & SA_SIGINFO) || (action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN);
}

static void unwatch(void) {
    struct sigaction now;
    if (pthread_mutex_trylock(&lock))
        return;
    if (!sigaction(SIGINT, NULL, &now) && is_ours(&now))
        sigaction(SIGINT, &before, NULL);
    pthread_mutex_unlock(&lock);
}

void kw_interrupts_enter(void) {
    __atomic_add_fetch(&watchers, 1, __ATOMIC_RELAXED);
    kw_interrupts_watch();
}

void kw_interrupts_leave(void) {
    if (__atomic_sub_fetch(&watchers, 1, __ATOMIC_RELAXED) == 0) unwatch();
}

void kw_interrupts_watch(void) {
    struct sigaction now, ours;
    if (pthread_mutex_trylock(&lock)) /* another thread has the lock, or had it when the process forked */
        return;
    if (!sigaction(SIGINT, NULL, &now) && !is_ours(&now) && has_function(&now)) {
        before = now;
        ours = now;
        ours.sa_flags = (int)((unsigned)now.sa_flags | SA_SIGINFO);
        ours.sa_sigaction = on_interrupt;
        sigaction(SIGINT, &ours, NULL);
    }
    pthread_mutex_unlock(&lock);
}

int kw_interrupts_count(void) { return __atomic_load_n(&count, __ATOMIC_RELAXED); }
