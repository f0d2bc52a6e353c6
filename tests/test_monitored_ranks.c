// Bytes and messages that ranks count as sent, and that plans predict, equal those of Open MPI's own monitor.
#define _GNU_SOURCE // asprintf
#include "tests/program.h"
#include "tests/quoted.h"
#include "tests/records_of.h"
#include <jansson.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define RANKS        3
#define SAMPLES      2
#define MPIRUN                                                                                                     \
    "mpirun -n {ranks} --oversubscribe --bind-to none --mca btl self,vader --mca plm isolated "                    \
    "--mca pml_monitoring_enable 2 --mca pml_monitoring_enable_output 3 --mca pml_monitoring_filename $PWD/seen"

static void write_spec(const struct scratch *scratch, const char *trial)
{
    char *text;
    assert_true(asprintf(&text,
                         "{'experiment': 't', 'model': {'layers': 6, 'width': 24, 'heads': 4, 'kv_heads': 2, "
                         "'ffn': 40, 'vocab': 31}, 'context': 40, 'batch': 3, "
                         "'measure': {'warmup': 0, 'samples': %d, 'gradient': 'none'}, 'axes': {%s}}",
                         SAMPLES, trial) > 0);
    char *json = quoted(text);
    scratch_file(scratch, "spec.json", json, strlen(json));
    free(json);
    free(text);
}

// Sends of the rank itself to all others: "E 0 1 8832 bytes 6 msgs sent ...". Messages without tensors are
// collective operations, which the monitor lists elsewhere.
static void read_seen(const struct scratch *scratch, size_t rank, double *bytes, double *messages)
{
    char name[32];
    *bytes = *messages = 0;
    snprintf(name, sizeof name, "seen.%zu.prof", rank);
    char *text = text_of(scratch, name), *rest = text;
    for (char *line; (line = strsep(&rest, "\n"));) {
        double sent, count;
        if (sscanf(line, "E %*d %*d %lf bytes %lf msgs", &sent, &count) == 2) {
            *bytes += sent;
            *messages += count;
        }
    }
    free(text);
}

static double of_rank(const json_t *record, const char *key, size_t rank)
{
    return json_number_value(json_array_get(json_object_get(json_object_get(record, "ranks"), key), rank));
}

static void what_is_counted_is_what_goes_out(void **state)
{
    const struct scratch *scratch = *state;
    static const char *const trials[] = {
        "'method': [{'name': 'seco', 'chunk': 7}], 'parallel': [{'stage': 3}]",
        "'method': ['full'], 'parallel': [{'data': 3}]",
        "'method': [{'name': 'streambp', 'chunk': 7}], 'parallel': [{'data': 3, 'zero': 3, 'overlap': true}]",
        "'method': ['checkpoint'], 'parallel': [{'sequence': 3, 'exchange': 'ring'}]",
    };
    for (size_t i = 0; i < COUNT(trials); i++) {
        write_spec(scratch, trials[i]);
        const char *root = getuid() == 0 ? " --allow-run-as-root" : "";
        char *command;
        assert_true(asprintf(&command,
                             "rm -f r.jsonl seen.*; $L run spec.json --out r.jsonl --launch \"" MPIRUN "%s\"",
                             root) > 0);
        if (run(scratch, command) != 0)
            fail_msg("%s: %s", trials[i], text_of(scratch, "err"));
        json_t *all = records(scratch, "r.jsonl");
        for (size_t rank = 0; rank < RANKS; rank++) {
            double bytes, messages;
            const json_t *record = json_array_get(all, 0);
            read_seen(scratch, rank, &bytes, &messages);
            if (!(bytes > 0 && bytes == SAMPLES * of_rank(record, "sent_bytes", rank) &&
                  messages == SAMPLES * of_rank(record, "messages", rank)))
                fail_msg("%s: rank %zu counts %g bytes in %g messages of a step; of %d go %g in %g", trials[i],
                         rank, of_rank(record, "sent_bytes", rank), of_rank(record, "messages", rank), SAMPLES,
                         bytes, messages);
        }
        json_decref(all);
        free(command);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_counted_is_what_goes_out, scratch_setup, scratch_teardown),
    };
    char plugin[4096];
    const char *longbp = program();
    snprintf(plugin, sizeof plugin, "%.4000s-mpi.so", longbp);
    free((char *)longbp);
    if (access(plugin, F_OK) != 0) {
        printf("monitored ranks: left out, there is no %s: it needs openmpi-bin and libopenmpi-dev\n", plugin);
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
