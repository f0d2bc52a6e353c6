#include "harness/sweep/trial_child.h"
#include "harness/machine/exit_code.h"
#include "harness/process/child.h"
#include "harness/process/launch.h"
#include "harness/record/record.h"
#include "harness/text/text.h"
#include "harness/trial/trial_run.h"
#include "kernels/base/host_memory.h"
#include <string.h>
#include <unistd.h>

char *trial_child_input(const struct trial *trial)
{
    json_t *beside = json_pack("{s:o, s:o, s:I, s:s?}", "experiment", record_text(text_or(trial->experiment, "")),
                               "command", record_text(text_or(trial->command, "")), "round",
                               (json_int_t)trial->round, "shares", trial->shares);
    char *words = json_dumps(beside, JSON_COMPACT), *input = text_new("%s\n%s", trial->canonical, words);
    free(words);
    json_decref(beside);
    return input;
}

// Adds the second line's values; texts are borrowed from it.
static void take_beside(struct trial *trial, const json_t *beside)
{
    const char *shares = json_string_value(json_object_get(beside, "shares"));
    trial->experiment = json_string_value(json_object_get(beside, "experiment"));
    trial->command = json_string_value(json_object_get(beside, "command"));
    trial->round = (size_t)json_integer_value(json_object_get(beside, "round"));
    trial->shares = shares ? strdup(shares) : NULL;
}

// Reads the text of trial_child_input, to be freed; only rank 0 has it on stdin.
static char *read_trial(const struct world *world)
{
    char *json = NULL;
    size_t capacity = 0, bytes = 0;
    if (world->comm.rank == 0 && getdelim(&json, &capacity, 0, stdin) >= 0)
        bytes = strlen(json) + 1;
    world->ops->broadcast(world, &bytes, sizeof bytes);
    if (bytes == 0) {
        free(json);
        return NULL;
    }
    if (world->comm.rank > 0)
        json = malloc(bytes);
    world->ops->broadcast(world, json, bytes);
    return json;
}

static int write_line(int output, const char *line)
{
    FILE *file = fdopen(output, "w");
    CHECK(file);
    return fprintf(file, "%s\n", line) > 0 && fclose(file) == 0 ? 0 : 2;
}

#define TELL_S 2 // for the first failing rank to report and end the others

// One rank reports; a second one waits for the end.
static int tell(const struct world *world, int output, const char *line)
{
    if (world->comm.size == 1 || launch_first_to_tell())
        return write_line(output, line);
    sleep(TELL_S);
    return 0;
}

// A rank that failed has reported; the others need not wait.
static int run_trial(const struct trial *trial, struct world *world, bool store, int output)
{
    bool failed = false;
    char *line =
        world->comm.size > 1 ? trial_run_rank(trial, world, &failed) : trial_run(trial, store ? CHILD_STORE : -1);
    int code = line ? tell(world, output, line) : 0;
    free(line);
    if (failed && world->comm.ops->abort)
        world->comm.ops->abort(&world->comm);
    return code;
}

int trial_child_main(bool store, bool ranked)
{
    host_memory_settle("the trial's process", EXIT_OUT_OF_MEMORY, NULL);
    // stdout is reserved for the record; other output joins stderr.
    int output = dup(STDOUT_FILENO);
    CHECK(output >= 0 && dup2(STDERR_FILENO, STDOUT_FILENO) >= 0);
    struct trial trial;
    struct status status = {0};
    struct world world;
    int code = 2;
    if (ranked)
        launch_follow();
    else
        world_open_alone(&world);
    if (ranked && !world_open_mpi(&world, &status)) {
        fprintf(stderr, "%s\n", status.message);
        return code;
    }
    char *json = read_trial(&world), *rest = json ? strchr(json, '\n') : NULL;
    json_t *beside = rest ? json_loads(rest, 0, NULL) : NULL;
    if (rest)
        *rest = 0;
    if (!json) {
        fprintf(stderr, "no trial on stdin\n");
    } else if (trial_decode(&trial, json, "stdin", &status)) {
        take_beside(&trial, beside);
        code = run_trial(&trial, &world, store, output);
    } else {
        fprintf(stderr, "%s\n", status.message);
    }
    if (json)
        trial_free(&trial);
    json_decref(beside);
    free(json);
    world_close(&world);
    return code;
}
