// Sketched record: a record as figures read it, in which only what matters to a test is said. Written with ' for ".
// Before it is included, _GNU_SOURCE is defined, for asprintf.
#pragma once
#include "tests/quoted.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

// A record: what differs between the tests' records is the status, the experiment, the trial's dtype, context and
// method, and what was measured (the rest of the object, from its first comma).
static inline char *record(int id, const char *experiment, const char *status, const char *dtype, int context,
                           const char *method, const char *measured)
{
    char *text, *line;
    assert_true(
        asprintf(&text,
                 "{'schema': 2, 'id': '%032x', 'experiment': '%s', 'status': '%s', 'reason': '', 'trial': "
                 "{'model': 'tiny', 'dtype': '%s', 'device': 'cpu', 'batch': 1, 'context': %d, 'seed': 1, "
                 "'lora': null, 'method': %s, 'measure': {'samples': 3}, 'limits': {'memory': 1000000}}, "
                 "'provenance': {'revision': 'abcdef123456', 'dirty': false, 'cpu': 'A CPU', 'threads': 2}%s}",
                 id, experiment, status, dtype, context, method, measured) > 0);
    line = quoted(text);
    free(text);
    return line;
}

static const char full[] = "{'name': 'full'}";
static const char seco_64[] = "{'name': 'seco', 'chunk': 64, 'inner': 'none'}";
static const char seco_128[] = "{'name': 'seco', 'chunk': 128, 'inner': 'none'}";

#define SPACO(budget, sampler, compensation)                                                                       \
    "{'budget': " #budget ", 'chunk': 64, 'compensation': '" compensation                                          \
    "', 'name': 'spaco', 'sampler': '" sampler "'}"

// Samples that each walked a draw, how many chunks those had, their mean and its standard error.
#define DRAWN(samples, columns, mean, error)                                                                       \
    ", 'median_ms': 9, 'samples_ms': " samples ", 'sample_chunks': " columns ", 'mean_ms': " mean                  \
    ", 'mean_error_ms': " error

// A step's time by category, and a row of it.
#define CATEGORIES(step_ms, rows) ", 'categories': {'step_ms': " step_ms ", 'roofline': null, 'rows': [" rows "]}"
#define ROW(category, operation, shape, ms, estimate)                                                              \
    "{'category': '" category "', 'operation': '" operation "', 'shape': " shape                                   \
    ", 'launches': 1, 'flops': 2, 'bytes_moved': 3, 'ms': " ms ", 'estimate_ms': " estimate "}"
