#include "harness/run/rank_times.h"
#include <math.h>
#include <stdlib.h>

#define UNKNOWN (-1.0)

struct word {
    double sent_s, room_s, gone_s; // or UNKNOWN
};

// Messages from one of the timed ranks to another, in their order.
struct channel {
    size_t from, to;
    const struct link_level *level;
    size_t sent, received; // that were asked for
    size_t capacity;
    struct word *words;
    double free_s; // when the last has gone
};

// Ranks that meet, again and again.
struct group {
    size_t first, stride, size;
    size_t members, come; // of the timed ranks: all, and those that have come to the next meeting
    size_t meetings;      // that have begun
    double latest_s;      // of those that have come
    double begun_s;       // of the last one
};

// A message's place.
struct address {
    size_t channel, word;
};

struct timed {
    struct timed_rank *rank;
    size_t next; // event
    bool comes;  // to it, and waits
    double clock_s;
    size_t meeting;            // that it has come to, from 1 on; 0: none
    struct address *addresses; // [trace->count] of the events that are messages
};

struct simulation {
    const struct links *links;
    size_t count;
    struct timed *timed;
    size_t channel_count, channel_capacity;
    struct channel *channels;
    size_t group_count, group_capacity;
    struct group *groups;
};

static void *room_for(void *items, size_t *capacity, size_t count, size_t bytes)
{
    if (count < *capacity)
        return items;
    *capacity = 2 * count + 16;
    items = realloc(items, *capacity * bytes);
    CHECK(items);
    return items;
}

// The timed rank of a number; all that anybody speaks to are there.
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
            (struct channel){.from = from, .to = to, .level = links_between(s->links, a, b)};
    }
    return i;
}

static struct address address_of(struct simulation *s, size_t channel, bool send)
{
    CHECK(channel < s->channel_count);
    struct channel *c = &s->channels[channel];
    size_t *asked = send ? &c->sent : &c->received;
    c->words = room_for(c->words, &c->capacity, *asked, sizeof *c->words);
    c->words[*asked] = (struct word){UNKNOWN, UNKNOWN, UNKNOWN};
    return (struct address){channel, (*asked)++};
}

// Which message each event is.
static void find_addresses(struct simulation *s, size_t own)
{
    struct timed *timed = &s->timed[own];
    const struct trace *trace = timed->rank->trace;
    size_t peers[2] = {SIZE_MAX, SIZE_MAX}, channels[2] = {0, 0}; // of the last send, and the last receive
    timed->addresses = calloc(trace->count + 1, sizeof *timed->addresses);
    CHECK(timed->addresses);
    for (size_t i = 0; i < trace->count; i++) {
        const struct trace_event *event = &trace->events[i];
        bool send = event->kind == TRACE_SEND;
        if (!send && event->kind != TRACE_RECEIVE)
            continue;
        if (event->peer != peers[send]) {
            size_t peer = timed_of(s, event->peer - timed->rank->walked + timed->rank->rank);
            peers[send] = event->peer;
            channels[send] = send ? channel_of(s, own, peer) : channel_of(s, peer, own);
        }
        timed->addresses[i] = address_of(s, channels[send], send);
    }
}

static struct group *group_of(struct simulation *s, const struct timed_rank *rank, const struct trace_event *event)
{
    size_t first = trace_group(rank->rank, event->stride, event->size);
    for (struct group *g = s->groups; g < s->groups + s->group_count; g++)
        if (g->first == first && g->stride == event->stride && g->size == event->size)
            return g;
    s->groups = room_for(s->groups, &s->group_capacity, s->group_count, sizeof *s->groups);
    struct group *group = &s->groups[s->group_count++];
    *group = (struct group){.first = first, .stride = event->stride, .size = event->size};
    for (size_t i = 0; i < s->count; i++) {
        size_t number = s->timed[i].rank->rank, after = number - first;
        group->members += number >= first && after % event->stride == 0 && after / event->stride < event->size;
    }
    return group;
}

// Both ends are known: when it has gone.
static void carry(struct channel *channel, struct word *word, double bytes)
{
    if (word->sent_s == UNKNOWN || word->room_s == UNKNOWN)
        return;
    double begun_s = fmax(channel->free_s, fmax(word->sent_s, word->room_s));
    word->gone_s = channel->free_s = begun_s + bytes / channel->level->bytes_per_s.value;
}

// False: it waits for somebody.
static bool meet(struct simulation *s, struct timed *timed, const struct trace_event *event)
{
    const struct timed_rank *rank = timed->rank;
    struct group *group = group_of(s, rank, event);
    if (!timed->meeting) {
        timed->meeting = group->meetings + 1;
        group->latest_s = fmax(group->latest_s, timed->clock_s);
        if (++group->come == group->members) {
            group->meetings++;
            group->begun_s = group->latest_s;
            group->come = 0;
            group->latest_s = 0;
        }
    }
    if (group->meetings < timed->meeting)
        return false;
    timed->meeting = 0;
    timed->clock_s = group->begun_s + links_seconds(s->links, rank->rank, group->first, group->stride, group->size,
                                                    event->sent_bytes, event->received_bytes);
    return true;
}

static bool wait_for(struct simulation *s, struct timed *timed, const struct trace_event *event)
{
    struct address address = timed->addresses[event->event];
    CHECK(address.channel < s->channel_count);
    const struct channel *channel = &s->channels[address.channel];
    double gone_s = channel->words[address.word].gone_s;
    bool receives = timed->rank->trace->events[event->event].kind == TRACE_RECEIVE;
    if (gone_s == UNKNOWN)
        return false;
    timed->clock_s = fmax(timed->clock_s, gone_s + (receives ? channel->level->latency_s.value : 0));
    return true;
}

static void ask(struct simulation *s, struct timed *timed, const struct trace_event *event)
{
    struct address address = timed->addresses[timed->next];
    struct channel *channel = &s->channels[address.channel];
    struct word *word = &channel->words[address.word];
    *(event->kind == TRACE_SEND ? &word->sent_s : &word->room_s) = timed->clock_s;
    carry(channel, word, event->sent_bytes);
}

// From where it stands to where it has to wait. Whether it went on.
static bool go_on(struct simulation *s, struct timed *timed)
{
    const struct trace *trace = timed->rank->trace;
    size_t before = timed->next;
    bool waits = false;
    while (!waits && timed->next < trace->count) {
        const struct trace_event *event = &trace->events[timed->next];
        if (!timed->comes) { // else it has to wait, and has computed before
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
            waits = !meet(s, timed, event);
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
        free(s->channels[i].words);
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

bool rank_times(struct timed_rank *ranks, size_t count, const struct links *links, double *seconds,
                struct status *status)
{
    struct simulation s = {.links = links, .count = count, .timed = calloc(count, sizeof *s.timed)};
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
        *seconds = fmax(*seconds, ranks[i].end_s);
    }
    close_simulation(&s);
    return done;
}
