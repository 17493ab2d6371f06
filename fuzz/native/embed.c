/* The entry points of libFuzzer for targets in Cython: starts an interpreter once, then calls fuzz_one() per input.
 *
 * The extensions are linked into the program and registered as builtin modules (MODULES, by the build), so the
 * kafwire that is imported here is the instrumented one. The interpreter itself is not instrumented.
 *
 * Leaks: after an input no buffer may be live. Blocks of Python's allocators are counted from one full collection to the
 * next (it empties free lists too); while they grow, and for the first inputs, each input that leaves some behind is run
 * again between two collections: one block more each time is a leak. What C code allocates past them is LeakSanitizer's. */
#include <Python.h>

#include "kafwire/memory/native/buf.h"

enum { REPEATS = 8, WINDOW = 20000, GROWTH = 40, FIRST = 16 };

/* The fault, or NULL. */
const char *fuzz_one(const uint8_t *data, size_t size);

#define MODULE(symbol, name) extern PyObject *PyInit_##symbol(void);
MODULES
#undef MODULE

static long long blocks;

static void *counted(void *block) {
    blocks += block != NULL;
    return block;
}
static void *allocate(void *context, size_t size) {
    (void)context;
    return counted(malloc(size ? size : 1));
}
static void *allocate_zeroed(void *context, size_t count, size_t size) {
    (void)context;
    return counted(count && size ? calloc(count, size) : calloc(1, 1));
}
static void *reallocate(void *context, void *block, size_t size) {
    (void)context;
    void *moved = realloc(block, size ? size : 1);
    return block ? moved : counted(moved);
}
static void release(void *context, void *block) {
    (void)context;
    blocks -= block != NULL;
    free(block);
}

static void give_up(PyStatus status) {
    if (PyStatus_Exception(status)) Py_ExitStatusException(status);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    PyMemAllocatorEx allocator = {NULL, allocate, allocate_zeroed, reallocate, release};
    PyPreConfig before;
    PyConfig config;
    PyPreConfig_InitPythonConfig(&before);
    before.allocator = PYMEM_ALLOCATOR_MALLOC;
    give_up(Py_PreInitialize(&before));
    PyMem_SetAllocator(PYMEM_DOMAIN_RAW, &allocator);
    PyMem_SetAllocator(PYMEM_DOMAIN_MEM, &allocator);
    PyMem_SetAllocator(PYMEM_DOMAIN_OBJ, &allocator);
#define MODULE(symbol, name) PyImport_AppendInittab(name, PyInit_##symbol);
    MODULES
#undef MODULE
    PyConfig_InitPythonConfig(&config);
    config.install_signal_handlers = 0;
    config.write_bytecode = 0;
    give_up(PyConfig_SetBytesString(&config, &config.executable, PYTHON)); /* its environment is where lz4 and zstd are */
    give_up(Py_InitializeFromConfig(&config));
    PyConfig_Clear(&config);
    if (PyRun_SimpleString("import sys\n"
                           "from importlib.machinery import BuiltinImporter\n"
                           "class Linked:\n" /* BuiltinImporter itself finds no module of a package */
                           "    @staticmethod\n"
                           "    def find_spec(name, path=None, target=None):\n"
                           "        return BuiltinImporter.find_spec(name)\n"
                           "sys.meta_path.insert(0, Linked)\n"
                           "sys.path.insert(0, '" ROOT "')\n"
                           "import " TARGET " as target\n"
                           "target.prepare()\n"
                           "import gc\n"
                           "gc.collect()\n"
                           "gc.freeze()\n" /* so that a collection is quick */
                           "for name, module in list(sys.modules.items()):\n"
                           "    if name.startswith('kafwire.') and (getattr(module, '__file__', None) or '').endswith('.so'):\n"
                           "        raise SystemExit(f'{name} is not linked into this program')\n"))
        exit(1);
    return 0;
}

static void check(const uint8_t *data, size_t size) {
    const char *wrong = fuzz_one(data, size);
    if (!wrong && kw_pool_live_bytes(kw_pool_new(0))) wrong = "a buffer is still live";
    if (!wrong) return;
    fprintf(stderr, "INVARIANT BROKEN: %s\n", wrong);
    abort();
}

static void check_strictly(const uint8_t *data, size_t size) {
    long long before = blocks;
    check(data, size);
    if (blocks <= before) return;
    check(data, size); /* the first time may have filled a cache */
    PyGC_Collect();
    before = blocks;
    for (int i = 0; i < REPEATS; i++) check(data, size);
    PyGC_Collect();
    if (blocks - before < REPEATS) return;
    fprintf(stderr, "INVARIANT BROKEN: %d runs leave %lld blocks of memory behind\n", REPEATS, blocks - before);
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static long long strictly = FIRST, executions, last;
    if (strictly) {
        strictly--;
        check_strictly(data, size);
    } else {
        check(data, size);
    }
    if (++executions % WINDOW == 0) {
        PyGC_Collect();
        if (blocks - last > GROWTH && executions > WINDOW) strictly = WINDOW / 4;
        last = blocks;
    }
    return 0;
}
