#include "kernels/measure/breakdown.h"
#include "kernels/measure/timer.h"
#include <string.h>

#define IDLE 0 // index of the idle row

static size_t row_of(struct breakdown *b, const struct range *range, enum work work)
{
    struct breakdown_row row = {
        .work = work, .operation = range->name, .m = range->m, .n = range->n, .k = range->k};
    for (size_t i = 0; i < b->row_count; i++) {
        const struct breakdown_row *r = &b->rows[i];
        if (r->work == work && r->m == row.m && r->n == row.n && r->k == row.k &&
            strcmp(r->operation, row.operation) == 0)
            return i;
    }
    if (b->row_count == b->capacity) {
        b->capacity = b->capacity ? 2 * b->capacity : 64;
        b->rows = realloc(b->rows, b->capacity * sizeof *b->rows);
        CHECK(b->rows);
    }
    b->rows[b->row_count] = row;
    return b->row_count++;
}

// Adds up the time of the first `count` moments; `end` is the mark after the last. Runs backwards, so that the
// first wait is for the last mark, and no other wait blocks.
static void add_up(struct breakdown *b, struct device *device, size_t count, size_t end)
{
    for (size_t i = count; i-- > 0;) {
        b->rows[b->begun[i].row].ms += device_marks_ms(device, b->begun[i].mark, end);
        end = b->begun[i].mark;
    }
    b->begun_count -= count;
    memmove(b->begun, b->begun + count, b->begun_count * sizeof *b->begun);
}

// Starts charging time to a row. When all marks are used, waits for the older half while the device continues with
// the other.
static void begin(struct breakdown *b, struct device *device, size_t row)
{
    if (!b->timed || device->ops->dataless || b->begun[b->begun_count - 1].row == row)
        return;
    const size_t marks = DEVICE_MARKS - MARK_FREE;
    if (b->begun_count == marks)
        add_up(b, device, marks / 2, b->begun[marks / 2].mark);
    size_t mark = MARK_FREE + b->next_mark++ % marks;
    device_mark(device, mark);
    b->begun[b->begun_count].mark = mark;
    b->begun[b->begun_count++].row = row;
}

static bool within_head(const struct breakdown *b)
{
    for (size_t i = 0; i < b->depth; i++)
        if (b->open[i].level == RANGE_HEAD)
            return true;
    return false;
}

// Charges the counts since then to this row.
static void count(struct breakdown *b, struct breakdown_row *row, const struct counters *counters)
{
    row->flops += counters->flops - b->seen.flops;
    row->bytes_moved += counters->bytes_moved - b->seen.bytes_moved;
    row->estimate_s += counters->estimate_s - b->seen.estimate_s;
    row->launches += counters->launches - b->seen.launches;
    b->seen = *counters;
}

// Time of an estimate beyond its operations': waits for copies.
static double waiting_s(const struct counters *counters)
{
    return counters_clock_s(counters) - counters->estimate_s;
}

static void push(struct observer *observer, struct device *device, const struct range *range)
{
    struct breakdown *b = (struct breakdown *)observer;
    size_t row = b->depth ? b->open[b->depth - 1].row : IDLE;
    CHECK(b->depth < BREAKDOWN_DEPTH);
    if (range->level == RANGE_TIMED) {
        b->timed = true;
        b->seen = device->counters;
        b->waited_s = waiting_s(&device->counters);
        b->begun[0].mark = MARK_START;
        b->begun[0].row = row;
        b->begun_count = 1;
    } else if (range->level == RANGE_OPERATION || range->level == RANGE_PART) {
        row = row_of(b, range, within_head(b) ? WORK_HEAD : range->work);
        begin(b, device, row);
    }
    if (range->level == RANGE_OPERATION && b->timed)
        count(b, &b->rows[row], &device->counters);
    b->open[b->depth].level = range->level;
    b->open[b->depth++].row = row;
}

static void pop(struct observer *observer, struct device *device)
{
    struct breakdown *b = (struct breakdown *)observer;
    CHECK(b->depth > 0);
    b->depth--;
    if (b->open[b->depth].level == RANGE_TIMED) {
        b->rows[IDLE].estimate_s += waiting_s(&device->counters) - b->waited_s;
        if (!device->ops->dataless)
            add_up(b, device, b->begun_count, MARK_STOP);
        b->timed = false;
    } else {
        begin(b, device, b->depth ? b->open[b->depth - 1].row : IDLE);
    }
}

void breakdown_start(struct breakdown *breakdown, struct device *device)
{
    *breakdown = (struct breakdown){.observer = {.push = push, .pop = pop}};
    row_of(breakdown, &(struct range){.name = "idle"}, WORK_IDLE);
    observer_attach(&breakdown->observer, device);
}

void breakdown_stop(struct breakdown *breakdown, struct device *device)
{
    observer_detach(&breakdown->observer, device);
}

void breakdown_free(struct breakdown *breakdown)
{
    free(breakdown->rows);
    *breakdown = (struct breakdown){0};
}
