// Choice: what a trial walks that asks for method auto: the fastest exact method that fits, with its options.
#pragma once
#include "harness/run/planned_step.h"
#include <jansson.h>

// Whether the trial leaves its method to be chosen.
bool choice_is_open(const struct trial *trial);
// False and a status if nothing can be chosen for the trial: it has several stages.
bool choice_possible(const struct trial *trial, struct status *status);
// What the trial's memory is: its limits; else of a plan what its profile says is usable and nothing on the host,
// of a device what it and the host have free. False and a status if the device cannot be opened.
bool choice_limits(const struct trial *trial, struct planned_limits *limits, struct status *status);
// Puts the choice in the place of the trial's method and options, and on the host, where there is memory, what the
// trial has on the device and the choice has there. Of a method that is given it does nothing. False
// and a status (oom: nothing fits).
bool choose_method(struct trial *trial, struct planned_limits limits, struct status *status);
// The same within what the trial's memory is (choice_limits), before anything is measured.
bool choose_within(struct trial *trial, struct status *status);
// What was chosen: the method's name and every option, and "place" if something is kept on the host. A new
// reference; NULL: the trial's method was given.
json_t *choice_made(const struct trial *trial);
