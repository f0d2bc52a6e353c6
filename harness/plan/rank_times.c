#include "harness/plan/rank_times.h"
#include <stdlib.h>

#define UNKNOWN (-1.0)

struct transfer {
    double sent_s, room_s, gone_s; // or UNKNOWN
};

// Messages from one timed rank to another, in order.
struct channel {
    size_t from, to;
    const struct link_level *level;
    size_t sent, received; // numbers of posted ones
    size_t capacity;
    struct transfer *transfers;
    double free_s; // end of the latest message
};

struct meeting {
    size_t come;     // members that have arrived
    double latest_s; // latest arrival
};

// Ranks that perform collectives with each other.
struct group {
    size_t first, stride, size;
    size_t member_count, *members; // among the timed ranks
    size_t counted;                // for the rank whose addresses are being computed
    size_t capacity;
    struct meeting *meetings;
};

// The message or collective of an event: index of a channel or group, and number in it.
struct address {
    size_t of, number;
    double come_s, done_s; // of a collective: arrival and end at this rank; or UNKNOWN
};

struct timed {
    struct timed_rank *rank;
    size_t next; // next event
    bool comes;  // arriving, and waits
    double clock_s;
    struct address *addresses; // [trace->count] for events that are messages and collectives
    size_t meeting;            // the event that its links process next, or one before
    bool waits;                // its links have arrived there
    double free_s;             // end of the previous one on its links
};

struct simulation {
    const struct interconnect *interconnect;
    size_t count;
    struct timed *timed;
    size_t channel_count, channel_capacity;
    struct channel *channels;
    size_t group_count, group_capacity;
    struct group *groups;
};

static double later(double a, double b)
{
    return a > b ? a : b;
}

static void *room_for(void *items, size_t *capacity, size_t count, size_t bytes)
{
    if (count < *capacity)
        return items;
    *capacity = 2 * count + 16;
    items = realloc(items, *capacity * bytes);
    return items;
}

// The index of a rank among the timed ones, which include all communication partners.
static size_t timed_of(const struct simulation *s, size_t number)
{
    size_t low = 0, high = s->count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        *(s->timed[middle].rank->rank <= number ? &low : &high) = middle;
    }
    CHECK(s->timed[low].rank->rank == number);
    return low;
}

static size_t channel_of(struct simulation *s, size_t from, size_t to)
{
    size_t i = 0;
    while (i < s->channel_count && (s->channels[i].from != from || s->channels[i].to != to))
        i++;
    if (i == s->channel_count) {
        size_t a = s->timed[from].rank->rank, b = s->timed[to].rank->rank;
        s->channels = room_for(s->channels, &s->channel_capacity, i, sizeof *s->channels);
        s->channels[s->channel_count++] =
            (struct channel){.from = from, .to = to, .level = interconnect_between(s->interconnect, a, b)};
    }
    return i;
}

static struct address address_of(struct simulation *s, size_t channel, bool send)
{
    CHECK(channel < s->channel_count);
    struct channel *c = &s->channels[channel];
    size_t *asked = send ? &c->sent : &c->received;
    c->transfers = room_for(c->transfers, &c->capacity, *asked, sizeof *c->transfers);
    c->transfers[*asked] = (struct transfer){UNKNOWN, UNKNOWN, UNKNOWN};
    return (struct address){.of = channel, .number = (*asked)++};
}

static size_t group_of(struct simulation *s, const struct timed_rank *rank, const struct trace_event *event)
{
    size_t first = trace_group(rank->rank, event->stride, event->size);
    for (size_t i = 0; i < s->group_count; i++) {
        const struct group *g = &s->groups[i];
        if (g->first == first && g->stride == event->stride && g->size == event->size)
            return i;
    }
    s->groups = room_for(s->groups, &s->group_capacity, s->group_count, sizeof *s->groups);
    struct group *group = &s->groups[s->group_count];
    *group = (struct group){.first = first, .stride = event->stride, .size = event->size};
    group->members = calloc(s->count, sizeof *group->members);
    for (size_t i = 0; i < s->count; i++) {
        size_t number = s->timed[i].rank->rank, after = number - first;
        if (number >= first && after % event->stride == 0 && after / event->stride < event->size)
            group->members[group->member_count++] = i;
    }
    return s->group_count++;
}

static struct address meeting_of(struct simulation *s, const struct timed_rank *rank,
                                 const struct trace_event *event)
{
    size_t i = group_of(s, rank, event);
    struct group *group = &s->groups[i];
    group->meetings = room_for(group->meetings, &group->capacity, group->counted, sizeof *group->meetings);
    group->meetings[group->counted] = (struct meeting){0};
    return (struct address){i, group->counted++, UNKNOWN, UNKNOWN};
}

// Finds the message or collective of each event.
static void find_addresses(struct simulation *s, size_t own)
{
    struct timed *timed = &s->timed[own];
    const struct trace *trace = timed->rank->trace;
    size_t peers[2] = {SIZE_MAX, SIZE_MAX}, channels[2] = {0, 0}; // of the latest send and receive
    timed->addresses = calloc(trace->count + 1, sizeof *timed->addresses);
    for (size_t i = 0; i < s->group_count; i++)
        s->groups[i].counted = 0;
    for (size_t i = 0; i < trace->count; i++) {
        const struct trace_event *event = &trace->events[i];
        bool send = event->kind == TRACE_SEND;
        if (event->kind == TRACE_MEET)
            timed->addresses[i] = meeting_of(s, timed->rank, event);
        if (!send && event->kind != TRACE_RECEIVE)
            continue;
        if (event->peer != peers[send]) {
            size_t peer = timed_of(s, event->peer - timed->rank->source + timed->rank->rank);
            peers[send] = event->peer;
            channels[send] = send ? channel_of(s, own, peer) : channel_of(s, peer, own);
        }
        timed->addresses[i] = address_of(s, channels[send], send);
    }
}

// Computes a message's end once both ends are known.
static void carry(struct channel *channel, struct transfer *transfer, double bytes)
{
    if (transfer->sent_s == UNKNOWN || transfer->room_s == UNKNOWN)
        return;
    double begun_s = later(channel->free_s, later(transfer->sent_s, transfer->room_s));
    transfer->gone_s = channel->free_s = begun_s + bytes / channel->level->bytes_per_s.value;
}

static void come_next(struct simulation *s, struct timed *timed);

// Computes a collective once all ranks have arrived.
static void begin(struct simulation *s, const struct group *group, const struct meeting *meeting)
{
    for (size_t i = 0; i < group->member_count; i++) {
        struct timed *timed = &s->timed[group->members[i]];
        const struct trace_event *event = &timed->rank->trace->events[timed->meeting];
        struct address *address = &timed->addresses[timed->meeting];
        CHECK(timed->waits && &s->groups[address->of] == group);
        address->done_s = meeting->latest_s + interconnect_seconds(s->interconnect, timed->rank->rank, group->first,
                                                                   group->stride, group->size, event->sent_bytes,
                                                                   event->received_bytes);
        timed->free_s = address->done_s;
        timed->waits = false;
        timed->meeting++;
    }
    for (size_t i = 0; i < group->member_count; i++)
        come_next(s, &s->timed[group->members[i]]);
}

// Moves a rank's links to its next collective, if it has arrived there.
static void come_next(struct simulation *s, struct timed *timed)
{
    const struct trace *trace = timed->rank->trace;
    size_t end =
        timed->next < trace->count ? timed->next + 1 : trace->count; // end of the events that the rank has reached
    while (timed->meeting < end && trace->events[timed->meeting].kind != TRACE_MEET)
        timed->meeting++;
    if (timed->waits || timed->meeting == end || timed->addresses[timed->meeting].come_s == UNKNOWN)
        return;
    const struct address *address = &timed->addresses[timed->meeting];
    const struct group *group = &s->groups[address->of];
    struct meeting *meeting = &group->meetings[address->number];
    timed->waits = true;
    meeting->latest_s = later(meeting->latest_s, later(address->come_s, timed->free_s));
    if (++meeting->come == group->member_count)
        begin(s, group, meeting);
}

static void come(struct simulation *s, struct timed *timed)
{
    timed->addresses[timed->next].come_s = timed->clock_s;
    come_next(s, timed);
}

// Returns false if the end of the wait is not yet known.
static bool wait_for(struct simulation *s, struct timed *timed, const struct trace_event *event)
{
    struct address address = timed->addresses[event->event];
    double until_s = address.done_s;
    enum trace_kind kind = timed->rank->trace->events[event->event].kind;
    if (kind != TRACE_MEET) {
        CHECK(address.of < s->channel_count);
        const struct channel *channel = &s->channels[address.of];
        until_s = channel->transfers[address.number].gone_s;
        if (until_s != UNKNOWN && kind == TRACE_RECEIVE)
            until_s += channel->level->latency_s.value;
    }
    if (until_s != UNKNOWN)
        timed->clock_s = later(timed->clock_s, until_s);
    return until_s != UNKNOWN;
}

static void ask(struct simulation *s, struct timed *timed, const struct trace_event *event)
{
    struct address address = timed->addresses[timed->next];
    struct channel *channel = &s->channels[address.of];
    struct transfer *transfer = &channel->transfers[address.number];
    *(event->kind == TRACE_SEND ? &transfer->sent_s : &transfer->room_s) = timed->clock_s;
    carry(channel, transfer, event->sent_bytes);
}

// Advances a rank to its next wait. Returns whether it advanced.
static bool go_on(struct simulation *s, struct timed *timed)
{
    const struct trace *trace = timed->rank->trace;
    size_t before = timed->next;
    bool waits = false;
    while (!waits && timed->next < trace->count) {
        const struct trace_event *event = &trace->events[timed->next];
        if (!timed->comes) { // otherwise it is waiting and has computed before
            timed->clock_s += event->busy_s;
            timed->comes = true;
        }
        switch (event->kind) {
        case TRACE_SEND:
        case TRACE_RECEIVE:
            ask(s, timed, event);
            break;
        case TRACE_WAIT:
            waits = !wait_for(s, timed, event);
            break;
        case TRACE_MEET:
            come(s, timed);
            break;
        }
        timed->next += !waits;
        timed->comes = waits;
    }
    return timed->next > before;
}

static void close_simulation(struct simulation *s)
{
    for (size_t i = 0; i < s->count; i++)
        free(s->timed[i].addresses);
    for (size_t i = 0; i < s->channel_count; i++)
        free(s->channels[i].transfers);
    for (size_t i = 0; i < s->group_count; i++) {
        free(s->groups[i].members);
        free(s->groups[i].meetings);
    }
    free(s->timed);
    free(s->channels);
    free(s->groups);
}

static bool run(struct simulation *s, struct status *status)
{
    bool done = false, went_on = true;
    for (size_t i = 0; i < s->channel_count; i++)
        if (s->channels[i].sent != s->channels[i].received)
            return status_set(status, STATUS_FAILED, "rank %zu sends rank %zu %zu messages, which takes %zu",
                              s->timed[s->channels[i].from].rank->rank, s->timed[s->channels[i].to].rank->rank,
                              s->channels[i].sent, s->channels[i].received);
    while (!done && went_on) {
        done = true;
        went_on = false;
        for (size_t i = 0; i < s->count; i++) {
            went_on |= go_on(s, &s->timed[i]);
            done &= s->timed[i].next == s->timed[i].rank->trace->count;
        }
    }
    return done || status_set(status, STATUS_FAILED, "the ranks wait for each other");
}

double rank_waits_min_s(const struct trace *trace, size_t rank, const struct interconnect *interconnect)
{
    double seconds = 0;
    for (size_t i = 0; i + 1 < trace->count; i++) {
        const struct trace_event *meeting = &trace->events[i], *after = &trace->events[i + 1];
        if (meeting->kind == TRACE_MEET && after->kind == TRACE_WAIT && after->event == i && after->busy_s == 0)
            seconds +=
                interconnect_seconds(interconnect, rank, trace_group(rank, meeting->stride, meeting->size),
                                     meeting->stride, meeting->size, meeting->sent_bytes, meeting->received_bytes);
    }
    return seconds;
}

bool rank_times(struct timed_rank *ranks, size_t count, const struct interconnect *interconnect, double *seconds,
                struct status *status)
{
    struct simulation s = {.interconnect = interconnect, .count = count, .timed = calloc(count, sizeof *s.timed)};
    CHECK(s.timed && count > 0);
    for (size_t i = 0; i < count; i++)
        s.timed[i].rank = &ranks[i];
    for (size_t i = 0; i < count; i++)
        find_addresses(&s, i);
    bool done = run(&s, status);
    *seconds = 0;
    for (size_t i = 0; i < count; i++) {
        const struct trace *trace = ranks[i].trace;
        ranks[i].busy_s = trace->rest_s;
        for (size_t e = 0; e < trace->count; e++)
            ranks[i].busy_s += trace->events[e].busy_s;
        ranks[i].end_s = s.timed[i].clock_s + trace->rest_s;
        *seconds = later(*seconds, ranks[i].end_s);
    }
    close_simulation(&s);
    return done;
}
