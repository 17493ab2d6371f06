#include "lz4f.h"

#include <dlfcn.h>

#include "bench.h"

static void *need(void *library, const char *name) {
    void *symbol = dlsym(library, name);
    if (!symbol) bench_fail("lz4: %s is missing", name);
    return symbol;
}

const lz4f_api *lz4f_open(const char *path) {
    static lz4f_api api;
    const char *name = path && *path ? path : "liblz4.so.1";
    void *library = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
    if (!library) bench_fail("lz4: %s (Debian: apt install liblz4-1)", dlerror());
    *(void **)&api.frame_bound = need(library, "LZ4F_compressFrameBound");
    *(void **)&api.compress_frame = need(library, "LZ4F_compressFrame");
    *(void **)&api.is_error = need(library, "LZ4F_isError");
    *(void **)&api.create = need(library, "LZ4F_createDecompressionContext");
    *(void **)&api.decompress = need(library, "LZ4F_decompress");
    *(void **)&api.reset = need(library, "LZ4F_resetDecompressionContext");
    api.path = name;
    return &api;
}
