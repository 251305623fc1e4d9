/* SPDX-License-Identifier: MIT */
/* See ns_recorded_read. Trusts nothing in a record: too large counts make it broken, events with
 * numbers out of range are left out, unprintable characters are replaced. Files are read, not
 * mapped, since their writers may truncate them meanwhile. */
#include "cli/diagnose/diagnose.h"

#include "base/clock.h"
#include "judge/record.h"
#include "judge/statistics.h"
#include "process/scope.h"

#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* A record in memory. */
struct record {
    struct ns_record_head head;
    struct ns_record_slot *slots;
    struct ns_record_event *events; /* the complete ones, by slot, life and time */
    size_t n_slots, n_events;
};

/* False: it is not a record of this version. */
static bool read_head(int fd, struct ns_record_head *head)
{
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) ||
        pread(fd, head, sizeof *head, 0) != sizeof *head)
        return false;
    head->name[sizeof head->name - 1] = '\0';
    head->exe[sizeof head->exe - 1] = '\0';
    return head->magic == NS_RECORD_MAGIC && head->version == NS_RECORD_VERSION &&
           head->tick_ns != 0;
}

/* Read up to *count elements and set *count to their number. */
static void *read_all(int fd, size_t size, size_t *count, off_t offset)
{
    void *all = ns_allocate(*count, size);
    ssize_t n = pread(fd, all, *count * size, offset);
    *count = n > 0 ? (size_t)n / size : 0;
    return all;
}

static int by_slot_and_time(const void *left, const void *right)
{
    const struct ns_record_event *a = left, *b = right;
    if (a->slot != b->slot)
        return a->slot < b->slot ? -1 : 1;
    if (a->life != b->life)
        return a->life < b->life ? -1 : 1;
    if (a->look.at != b->look.at)
        return a->look.at < b->look.at ? -1 : 1;
    return a->look.kind < b->look.kind ? -1 : a->look.kind > b->look.kind; /* WAIT before WOKE */
}

static void keep_complete(struct record *record)
{
    size_t kept = 0;
    for (size_t i = 0; i < record->n_events; i++) {
        const struct ns_record_event *event = &record->events[i];
        bool good = event->complete == 1 && event->slot < record->n_slots && event->life > 0 &&
                    event->look.kind >= NS_LOOK_WAIT && event->look.kind <= NS_LOOK_WRITE;
        if (good)
            memmove(&record->events[kept++], event, sizeof *event);
    }
    record->n_events = kept;
    qsort(record->events, kept, sizeof *record->events, by_slot_and_time);
}

static bool read_record(int fd, struct record *record)
{
    if (!read_head(fd, &record->head))
        return false;
    record->n_slots = record->head.slots;
    record->n_events = record->head.events;
    if (record->n_slots > NS_RECORD_SLOTS || record->n_events > NS_RECORD_EVENTS)
        return false;
    record->slots = read_all(fd, sizeof *record->slots, &record->n_slots, NS_RECORD_SLOTS_AT);
    record->events = read_all(fd, sizeof *record->events, &record->n_events, NS_RECORD_EVENTS_AT);
    keep_complete(record);
    return true;
}

static struct ns_address address_of(const struct ns_record_address *recorded)
{
    struct ns_address address = {.known = recorded->known != 0, .port = (uint16_t)recorded->port};
    memcpy(&address.addr, (const void *)recorded->addr, sizeof address.addr);
    return address;
}

/* "write 281, write 480, wait"; successive writes of one size are combined. */
static const char *describe(uint32_t n_writes, const uint32_t *sizes)
{
    const uint32_t n = n_writes < NS_RECORD_SIZES ? n_writes : NS_RECORD_SIZES;
    const uint32_t more = n_writes - n, gap = more ? n - 2 : n; /* the last two are behind it */
    const char *text = "";
    if (n_writes == 0)
        return NULL;
    for (uint32_t i = 0, same; i < n; i += same) {
        if (i == gap)
            text = ns_words("%s%s, ", text, ns_count(more, "more write"));
        for (same = 1; i + same < n && i + same != gap && sizes[i + same] == sizes[i];)
            same++;
        text = ns_words("%swrite %u%s, ", text, sizes[i],
                        same > 1 ? ns_words(" (%u times)", same) : "");
    }
    return ns_words("%swait", text);
}

/* What was written before waits that stalled, and how often. */
struct pattern {
    const struct ns_record_event *event;
    unsigned n;
};
enum { PATTERNS_MOST = 64 }; /* of a slot; later ones are not counted */

/* The state while the samples of a slot are judged. */
struct replay {
    struct ns_diagnosis *diagnosis;
    struct ns_row connection;
    struct ns_row *row;
    unsigned stalled;
    struct pattern patterns[PATTERNS_MOST], *commonest;
};

static void count_pattern(struct replay *replay, const struct ns_record_event *event)
{
    struct pattern *one = replay->patterns;
    replay->stalled++;
    while (one->event && (one->event->n_writes != event->n_writes ||
                          memcmp(one->event->sizes, event->sizes, sizeof event->sizes) != 0))
        if (++one == replay->patterns + PATTERNS_MOST)
            return;
    one->event = event;
    one->n++;
    if (!replay->commonest || one->n > replay->commonest->n)
        replay->commonest = one;
}

/* The commonest pattern of the stalls, with its share; without a stall, what was written before the
 * last wait. */
static const char *pattern_of(const struct replay *replay, const struct ns_record_slot *slot)
{
    const struct pattern *most = replay->commonest;
    uint32_t sizes[NS_RECORD_SIZES];
    memcpy(sizes, (const void *)slot->sizes, sizeof sizes);
    if (!most)
        return describe(slot->n_writes, sizes);
    const char *text = describe(most->event->n_writes, most->event->sizes);
    return most->n == replay->stalled
               ? text
               : ns_words("%s (%u of %u held requests)", text, most->n, replay->stalled);
}

/* The phase of the kernel's tick, as CLOCK_MONOTONIC modulo its length: the coarse clock advances
 * then. (The value of the coarse clock does not help, since adjustments of the time let it drift
 * away from the tick.) On a busy machine ticks are seen late, but never early, so that the phase is
 * the earliest one after which many were seen. Since Linux 6.4 it is 0. */
static uint64_t find_tick(uint64_t tick)
{
    enum { TIMES = 16, MOST_NS = 100000000, LATE_NS = 100000, USUAL = 2 };
    uint64_t seen[TIMES + 1] = {0}, begin = ns_clock_now(CLOCK_MONOTONIC), now = begin, best = 0;
    uint64_t coarse = ns_clock_now(CLOCK_MONOTONIC_COARSE);
    size_t n = 1, most = 0;

    while (n <= TIMES && now - begin < MOST_NS) {
        uint64_t next = ns_clock_now(CLOCK_MONOTONIC_COARSE), before = now;
        now = ns_clock_now(CLOCK_MONOTONIC);
        if (next != coarse && now - before < LATE_NS)
            seen[n++] = now % tick;
        coarse = next;
    }
    for (size_t i = 0; i < n; i++) {
        size_t behind = i == 0 ? USUAL : 0;
        for (size_t j = 1; j < n; j++)
            behind += (seen[j] + tick - seen[i]) % tick < tick / NS_PHASES;
        if (behind > most) {
            most = behind;
            best = seen[i];
        }
    }
    return best;
}

/* Rotate the counts so that they begin with the tick. */
static void take_phases(uint32_t phases[NS_PHASES], const struct ns_record_slot *slot,
                        uint32_t tick_ns)
{
    static uint64_t place;
    static uint32_t known; /* of which tick */
    if (slot->late_ns > 0 && known != tick_ns) {
        place = find_tick(tick_ns);
        known = tick_ns;
    }
    for (size_t i = 0; i < NS_PHASES; i++)
        phases[i] = slot->phases[(i + place * NS_PHASES / tick_ns) % NS_PHASES];
}

/* Judge a slot whose samples begin at *at, and advance *at beyond them. */
static void judge_slot(struct replay *replay, const struct record *record, uint32_t number,
                       size_t *at, struct ns_verdict *verdict)
{
    const struct ns_record_slot *slot = &record->slots[number];
    const struct ns_record_event *last = NULL, *waited = NULL; /* waited: a WAIT after a write */
    uint32_t buckets[NS_WAIT_BUCKETS], phases[NS_PHASES];
    struct ns_judge judge;
    ns_judge_begin(&judge, record->head.tick_ns);
    for (; *at < record->n_events && record->events[*at].slot == number; ++*at) {
        const struct ns_record_event *event = &record->events[*at];
        struct ns_hold hold;
        if (last && event->life != last->life) {
            ns_judge_next(&judge);
            waited = NULL;
        }
        if (ns_judge_look(&judge, &event->look, &hold)) {
            ns_diagnosis_add_hold(replay->diagnosis, replay->row, &hold);
            if (hold.waited && waited)
                count_pattern(replay, waited);
        }
        if (event->look.kind == NS_LOOK_WAIT && event->n_writes > 0)
            waited = event;
        last = event;
    }
    memcpy(buckets, (const void *)slot->buckets, sizeof buckets);
    take_phases(phases, slot, record->head.tick_ns);
    ns_verdict_waits(&judge.verdict, buckets, slot->waited_ns);
    ns_verdict_delay(&judge.verdict, NS_DELAY_PEER, slot->slow, slot->slow_ns);
    ns_verdict_arrivals(&judge.verdict, phases, slot->late_ns, record->head.tick_ns);
    if (record->head.experiment != NS_EXPERIMENT_ACKNOWLEDGE) /* its samples have them */
        ns_verdict_parts(&judge.verdict, slot->parts, slot->parts_ns);
    /* The counts of the library are complete, even if samples were lost. */
    judge.verdict.requests = slot->requests;
    judge.verdict.calls = slot->writes + slot->reads;
    judge.verdict.asks = slot->role != NS_ROLE_SERVER;
    if (judge.verdict.watched_ns == 0 && slot->last > slot->first)
        judge.verdict.watched_ns = slot->last - slot->first;
    ns_judge_verdict(&judge, verdict);
}

static void take_slot(struct ns_diagnosis *diagnosis, struct ns_row_process *process,
                      const struct record *record, uint32_t number, size_t *at)
{
    const struct ns_record_slot *slot = &record->slots[number];
    struct replay replay = {.diagnosis = diagnosis};
    struct ns_row *connection = &replay.connection;
    *connection = (struct ns_row){
        .process = process,
        .source = NS_SOURCE_INSIDE,
        .role = slot->role <= NS_ROLE_SERVER ? (enum ns_role)slot->role : NS_ROLE_UNKNOWN,
        .local = address_of(&slot->local),
        .remote = address_of(&slot->remote),
        .connections = slot->lives,
    };
    replay.row = ns_diagnosis_row(diagnosis, connection);
    diagnosis->forgotten += !replay.row;
    if (!replay.row)
        return;
    judge_slot(&replay, record, number, at, &connection->verdict);
    connection->pattern = pattern_of(&replay, slot);
    ns_row_add(replay.row, connection);
}

/* Compare the answer times of the experiment, without [0] and with [1] the push or ACK. */
static void take_trial(struct ns_trial *trial, const struct record *record)
{
    const struct ns_record_event *tried = NULL; /* the last WAIT, if it was tried */
    double *ms[2] = {ns_allocate(record->n_events, sizeof(double)),
                     ns_allocate(record->n_events, sizeof(double))};
    size_t n[2] = {0};
    for (size_t i = 0; i < record->n_events; i++) {
        const struct ns_record_event *event = &record->events[i];
        if (tried && (event->slot != tried->slot || event->life != tried->life))
            tried = NULL;
        if (event->look.kind == NS_LOOK_WAIT && event->look.flags & NS_LOOK_TRIED) {
            tried = event;
        } else if (tried && event->look.kind == NS_LOOK_WOKE &&
                   event->look.flags & NS_LOOK_ARRIVED) {
            bool with = tried->look.flags & (NS_LOOK_PUSHED | NS_LOOK_ACKNOWLEDGED);
            ms[with][n[with]++] = (double)(event->look.at - tried->look.at) / 1e6;
            tried = NULL;
        }
    }
    *trial = (struct ns_trial){
        .what = (enum ns_experiment)record->head.experiment,
        .done = n[1],
        .left = n[0],
        .done_ms = ns_statistics_median(ms[1], n[1]),
        .left_ms = ns_statistics_median(ms[0], n[0]),
        .p = ns_statistics_mann_whitney(ms[1], n[1], ms[0], n[0]),
    };
    free(ms[0]);
    free(ms[1]);
}

static void take_record(struct ns_diagnosis *diagnosis, const struct record *record)
{
    const struct ns_record_head *head = &record->head;
    struct ns_row_process *process = ns_diagnosis_new_process(diagnosis, head->pid);
    size_t at = 0;
    snprintf(process->name, sizeof process->name, "%s", head->name);
    snprintf(process->exe, sizeof process->exe, "%s", head->exe);
    process->is_reachable = true; /* the library was preloaded */
    if (head->experiment == NS_EXPERIMENT_PUSH || head->experiment == NS_EXPERIMENT_ACKNOWLEDGE)
        take_trial(&process->trial, record);
    diagnosis->looks += record->n_events;
    diagnosis->forgotten += head->slots_lost;
    diagnosis->missed += head->events_lost;
    for (uint32_t i = 0; i < record->n_slots; i++) {
        while (at < record->n_events && record->events[at].slot < i) /* of an unused slot */
            at++;
        if (record->slots[i].lives > 0)
            take_slot(diagnosis, process, record, i, &at);
    }
}

static int is_record(const struct dirent *entry)
{
    return fnmatch("*" NS_RECORD_SUFFIX, entry->d_name, FNM_PERIOD) == 0;
}

/* False: the file could not be read as a record. */
static bool take_file(struct ns_diagnosis *diagnosis, int directory, const char *name)
{
    struct record record = {0};
    /* Opening a pipe must not block. */
    NS_AUTO_CLOSE int fd =
        openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    bool good = fd >= 0 && read_record(fd, &record);
    if (good && record.n_slots > 0)
        take_record(diagnosis, &record);
    free(record.slots);
    free(record.events);
    return good;
}

size_t ns_recorded_read(int directory, struct ns_diagnosis *diagnosis)
{
    struct dirent **entries = NULL;
    size_t n_broken = 0;
    int n = scandirat(directory, ".", &entries, is_record, versionsort);
    for (int i = 0; i < n; i++) {
        n_broken += !take_file(diagnosis, directory, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return n_broken;
}
