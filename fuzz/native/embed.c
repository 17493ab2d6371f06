/* The entry points of libFuzzer for targets in Cython: starts an interpreter once, then calls fuzz_one() per input.
 *
 * The extensions are linked into the program and registered as builtin modules (MODULES, by the build), so the
 * kafwire that is imported here is the instrumented one. The interpreter itself is not instrumented.
 *
 * Leaks: after an input no buffer may be live, and an input that leaves more blocks of Python's allocators behind each
 * time it is run again is a leak (the first times may fill caches). What C code allocates past them is LeakSanitizer's. */
#include <Python.h>

#include "native/buf.h"

enum { REPEATS = 6 };

/* What is wrong, or NULL. */
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
                           "for name, module in list(sys.modules.items()):\n"
                           "    if name.startswith('kafwire._') and module.__spec__.origin != 'built-in':\n"
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    long long before = blocks;
    check(data, size);
    for (int i = 0; blocks > before; i++) {
        if (i == REPEATS) {
            fprintf(stderr, "INVARIANT BROKEN: each run leaves %lld blocks of memory behind\n", blocks - before);
            abort();
        }
        before = blocks;
        check(data, size);
    }
    return 0;
}
