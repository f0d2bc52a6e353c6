// Plug-ins: one is loaded if it was built from this program's sources; another's, an invalid or a missing one is
// unsupported, with a reason that names the file and its build command.
#include "kernels/cuda/plugin.h"
#include "kernels/mpi/plugin.h"
#include <dlfcn.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const struct {
    const char *variable, *symbol, *sources, *remedy;
    bool (*load)(struct status *status);
} plugins[] = {
    {"LONGBP_MPI", MPI_PLUGIN_SYMBOL, MPI_PLUGIN_SOURCES, "libopenmpi-dev, then `make` builds it", world_has_mpi},
    {"LONGBP_CUDA", CUDA_PLUGIN_SYMBOL, CUDA_PLUGIN_SOURCES,
     "`make cuda` builds it, `make cuda-emulated` the emulated one", cuda_plugin_load},
};
#define PLUGINS (sizeof plugins / sizeof *plugins)

// The file must be refused as unsupported, for a reason that says both.
static void refused(size_t plugin, const char *path, const char *reason, const char *remedy)
{
    struct status status = {0};
    setenv(plugins[plugin].variable, path, 1);
    assert_false(plugins[plugin].load(&status));
    assert_int_equal(status.code, STATUS_UNSUPPORTED);
    if (!strstr(status.message, path) || !strstr(status.message, reason) || !strstr(status.message, remedy))
        fail_msg("\"%s\" does not say \"%s\", \"%s\" and \"%s\"", status.message, path, reason, remedy);
}

static void test_none(void **state)
{
    (void)state;
    for (size_t i = 0; i < PLUGINS; i++) {
        refused(i, "/there/is/no/such.so", "could not be loaded", plugins[i].remedy);
        refused(i, "/proc/self/exe", "could not be loaded", "");
        struct status status = {0};
        assert_false(plugins[i].load(&status));
        assert_null(strstr(status.message, "`make")); // it is there
        refused(i, "libm.so.6", "is no plug-in of longbp", "");
    }
}

// Its struct, whose first member says what it was built from.
static char *stub(const char *path, const char *symbol)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    char *sources = library ? dlsym(library, symbol) : NULL;
    assert_non_null(sources);
    return sources;
}

static void test_sources(void **state)
{
    (void)state;
    char path[PATH_MAX + 32];
    ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);
    assert_true(length > 0);
    path[length] = 0;
    strcpy(strrchr(path, '/'), "/stub_plugin.so");
    for (size_t i = 0; i < PLUGINS; i++) {
        char *sources = stub(path, plugins[i].symbol);
        assert_int_equal(strlen(plugins[i].sources), PLUGIN_SOURCES_BYTES - 1);
        refused(i, path, "was built from other sources than this program", plugins[i].remedy); // it says nothing
        *(size_t *)sources = 4; // as before there were hashes
        refused(i, path, "was built from other sources than this program", plugins[i].remedy);
        for (size_t at = 0; at < PLUGIN_SOURCES_BYTES - 1; at++) {
            strcpy(sources, plugins[i].sources);
            sources[at] = sources[at] == '0' ? '1' : '0';
            refused(i, path, "was built from other sources than this program", plugins[i].remedy);
        }
        strcpy(sources, plugins[i].sources);
        struct status status = {0};
        assert_true(plugins[i].load(&status));
        assert_int_equal(status.code, STATUS_OK);
    }
    assert_string_not_equal(plugins[0].sources, plugins[1].sources);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_none), cmocka_unit_test(test_sources), // last: what is loaded stays
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
