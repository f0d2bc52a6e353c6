// Search records: what a search found, each a trial that is planned once more and recorded, with why the search has
// it (struct record_search).
#pragma once
#include "harness/options/choice_words.h"
#include "harness/options/plan_flags.h"
#include "harness/record/record.h"
#include "harness/record/result_log.h"

struct search_records {
    const struct plan_flags *flags; // without --out and --json nothing is planned or written
    char *command;
    struct result_log log; // of --out
};

// Opens the file of --out. False and a status if it cannot be appended to. Release with search_records_close, also
// after a failure.
bool search_records_open(struct search_records *records, const struct plan_flags *flags, int argc, char **argv,
                         struct status *status);
// Records a choice at its trial's context and batch within these limits. first: as choice_describe's; search: but
// for what was asked for.
bool search_records_add(struct search_records *records, const char *experiment, const struct choice *choice,
                        const json_t *first, struct planned_limits limits, const struct record_search *search,
                        struct status *status);
// Records a trial without a search. Takes what the trial lists as unchecked from the flags.
bool search_records_add_trial(struct search_records *records, const char *experiment, struct trial *trial,
                              struct status *status);
void search_records_close(struct search_records *records);
