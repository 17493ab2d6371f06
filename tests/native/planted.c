/* A fuzz target with a mistake behind one input, for the tests of the runner: MISTAKE is 'O', 'U' or 'L'. */
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void *volatile kept;
static volatile int number;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 3 || data[0] != MISTAKE || data[1] != 'K') return 0;
    kept = malloc(size);
    if (!kept) return 0;
    memcpy(kept, data, size);
    if (MISTAKE == 'L') {
        kept = NULL; /* a leak */
        return 0;
    }
    if (MISTAKE == 'O') ((volatile uint8_t *)kept)[size] = 0; /* an overflow of the heap */
    number = INT_MAX;
    if (MISTAKE == 'U') number = number + (int)size; /* an overflow of a number */
    free(kept);
    kept = NULL;
    return 0;
}
