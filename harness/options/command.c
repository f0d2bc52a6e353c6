#include "harness/options/command.h"
#include "harness/files/unfinished.h"
#include "harness/text/names.h"
#include "kernels/base/host_memory.h"
#include <stdio.h>
#include <string.h>

const struct command commands[] = {
    {"run", "measure every trial of an experiment", command_run,
     "longbp run experiments/chunk.json --axis chunk=64,256 --dry-run\n"
     "longbp run experiments/chunk.json --axis chunk=64,256 --out mine.jsonl\n"
     "longbp run mine.json --rounds 3 --against ../before/build/longbp --compare"},
    {"verify", "check every method's gradient against the reference", command_verify,
     "longbp verify\n"
     "longbp verify --dtype f32"},
    {"grad", "compute one step's gradient and write it", command_grad,
     "longbp grad --model tiny --context 512 --method streambp --out g.safetensors\n"
     "longbp grad --model model/ --tokens my.txt --token-dtype bytes --context 512"},
    {"train", "train a model, step by step", command_train,
     "longbp train --model tiny --tokens my.txt --context 64 --steps 50 --out new/"},
    {"plan", "plan the bytes, FLOPs and time of a step without computing it", command_plan,
     "longbp plan --model llama-3-8b --dtype bf16 --method seco --context 16384\n"
     "longbp plan --model tiny --context 512 --method auto --memory-limit 64MiB"},
    {"advise", "find the fastest method that fits, and the cost of less memory", command_advise,
     "longbp advise --model qwen3-8b --dtype bf16 --context 8192 --profile a100-80g"},
    {"max-context", "find the longest context that each method can hold", command_max_context,
     "longbp max-context --model llama-3-8b --dtype bf16 --profile rtx-3090\n"
     "longbp max-context --model tiny --method seco --chunk 64 --memory-limit 1GiB"},
    {"max-batch", "find the largest batch that each method can hold", command_max_batch,
     "longbp max-batch --model llama-3-8b --context 4096 --profile rtx-3090"},
    {"frontier", "find the longest context against device and host memory", command_frontier,
     "longbp frontier --model llama-3-8b --lora r=8 --device-memory 16GiB,24GiB"},
    {"calibrate", "measure this machine for time estimates", command_calibrate, "longbp calibrate --out host.json"},
    {"sensors", "read every card's clocks, power and temperature at intervals", command_sensors,
     "longbp sensors --out sensors.csv"},
    {"compare", "find regressions between two result files", command_compare,
     "longbp compare base.jsonl new.jsonl\n"
     "longbp compare --deterministic --format markdown base.jsonl new.jsonl\n"
     "longbp compare --by chunk mine.jsonl"},
    {"history", "show each figure from commit to commit, and where it changed", command_history,
     "longbp history mine.jsonl"},
    {"plot", "draw the figures of recorded results", command_plot,
     "longbp plot mine.jsonl --out pictures\n"
     "longbp plot mine.jsonl --figures chunk --format pdf --size 170x90mm"},
    {"report", "print recorded results as tables, beside published ones", command_report,
     "longbp report mine.jsonl --format markdown\n"
     "longbp report mine.jsonl --columns method,chunk,time_ms --sort time_ms\n"
     "longbp report results/*.jsonl --html report.html"},
    {"claims", "compare the papers' claims with records", command_claims,
     "longbp claims\n"
     "longbp claims --format markdown"},
    {"list", "list methods, models, devices, keys and more", command_list,
     "longbp list methods\n"
     "longbp list profiles"},
    {"init", "make a folder of random weights", command_init,
     "longbp init --model tiny --seed 1 --dtype f64 --out model/"},
    {"completion", "print a script that completes commands in a shell", command_completion,
     "longbp completion bash > ~/.local/share/bash-completion/completions/longbp"},
    {"help", "describe all commands, or one", command_help, "longbp help run"},
    {"trial", NULL, command_trial, NULL},
    {NULL, NULL, NULL, NULL},
};

const struct command *command_find(const char *name)
{
    const struct command *command = commands;
    while (command->name && strcmp(command->name, name) != 0)
        command++;
    return command->name ? command : NULL;
}

int command_unknown(const char *name)
{
    struct names names = {0};
    for (const struct command *command = commands; command->name; command++)
        if (command->summary)
            names_add(&names, command->name);
    char hint[512];
    names_hint(&names, name, "commands", hint, sizeof hint);
    fprintf(stderr, "longbp: no command \"%s\"; %s\n", name, hint);
    return EXIT_BAD_INPUT;
}

int command_start(const struct command *command, int argc, char **argv)
{
    char title[64]; // argp prints argv[0] in the usage
    snprintf(title, sizeof title, "longbp %s", command->name);
    argv[0] = title;
    host_memory_settle(title, EXIT_BAD_INPUT, unfinished_remove);
    return command->run(argc, argv);
}

int command_end(const char *title, const struct status *status)
{
    if (status->code != STATUS_OK)
        fprintf(stderr, "%s: %s\n", title, status->message);
    return status->code == STATUS_OK ? EXIT_FINE : EXIT_BAD_INPUT;
}

void command_print(json_t *result, size_t flags)
{
    // main reports failed writes to stdout.
    CHECK(result && (json_dumpf(result, stdout, flags) == 0 || ferror(stdout)));
    putchar('\n');
    json_decref(result);
}
