/* SPDX-License-Identifier: MIT */
/* observe/recorder.c and cli/diagnose/recorded.c together: the recorded data is read, lost samples
 * and connections are counted, and a damaged file does no harm. */
#include "cli/diagnose/diagnose.h"
#include "observe/recorder.h"
#include "observe/sample.h"
#include "observe/descriptor.h"

#include "unit.h"

#include <dirent.h>

static char directory[] = "/tmp/test_recorded.XXXXXX";
static char path[PATH_MAX];
static int sockets[2];              /* the two ends of a TCP connection */
static uint64_t cookies = 1u << 30; /* of imagined connections */

CHECK(connect_sockets)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    bool works = bind(listener, (struct sockaddr *)&address, len) == 0 &&
                 listen(listener, 1) == 0 &&
                 getsockname(listener, (struct sockaddr *)&address, &len) == 0;
    sockets[0] = socket(AF_INET, SOCK_STREAM, 0);
    works = works && connect(sockets[0], (struct sockaddr *)&address, len) == 0;
    sockets[1] = accept(listener, NULL, NULL);
    OK(works && sockets[1] >= 0 && mkdtemp(directory), "a connection and a directory are made");
    close(listener);
    ns_recorder_open(directory, NS_EXPERIMENT_NONE);
}

/* Another connection with the addresses of sockets[0], which has ended by the next call. */
static struct ns_observed *add_client(void)
{
    bool full;
    return ns_recorder_add(sockets[0], ++cookies, NS_ROLE_CLIENT, &full);
}

static const char *the_record(void)
{
    DIR *dir = opendir(directory);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (strstr(entry->d_name, NS_RECORD_SUFFIX))
            snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
    closedir(dir);
    return path;
}

static struct ns_diagnosis all; /* of what was read last */
static size_t n_broken;

/* Reads all records of the directory. */
static void read_all(void)
{
    int fd = open(directory, O_RDONLY | O_DIRECTORY);
    ns_diagnosis_release(&all);
    all = (struct ns_diagnosis){0};
    n_broken = ns_recorded_read(fd, &all);
    close(fd);
}

CHECK(check_slots)
{
    ns_descriptor_has_role(sockets[0], NS_ROLE_CLIENT);
    ns_descriptor_has_role(sockets[1], NS_ROLE_SERVER);
    struct ns_observed *live = ns_descriptor_conn(sockets[0]);
    OK(live && ns_descriptor_conn(sockets[0]) == live, "a connection is added once");
    struct ns_observed *first = add_client();
    OK(first && first != live, "another connection has its own memory");
    struct ns_observed *server = ns_descriptor_conn(sockets[1]);
    OK(server && server != live && server != first,
       "a connection with another role gets its own slot");
    OK(add_client() == first,
       "a new connection to the same service reuses the slot of one that ended");
    read_all();
    OK(all.n_rows == 2 && all.rows[0]->connections == 3 && all.rows[1]->connections == 1,
       "three connections of the client are one row, and the server's is another");
    OK(all.n_processes == 1 && all.processes[0]->pid == getpid() &&
           strcmp(all.processes[0]->name, "test_recorded") == 0,
       "they belong to this process");
}

/* A connection that seems to be open: its slot is not reused. */
static struct ns_observed *add_live(void)
{
    bool full;
    struct ns_observed *conn = ns_recorder_add(sockets[0], ++cookies, NS_ROLE_UNKNOWN, &full);
    if (conn)
        NS_PUT(conn, cookie, ns_sample_cookie(sockets[0]));
    return conn;
}

CHECK(check_overflow)
{
    struct ns_observed *conn = ns_descriptor_conn(sockets[0]);
    struct ns_look look = {.kind = NS_LOOK_WAIT};
    unsigned given = 3;
    for (int i = 0; i < NS_RECORD_EVENTS + 10; i++) {
        look.at = (uint64_t)i + 1;
        ns_recorder_put(conn, &look);
    }
    for (int i = 0; i < NS_RECORD_SLOTS; i++)
        given += add_live() != NULL;
    read_all();
    OK(all.looks == NS_RECORD_EVENTS && all.missed == 10,
       "samples without room are counted: %" PRIu64, all.missed);
    OK(all.forgotten == 3 && given == NS_RECORD_SLOTS,
       "connections without room are counted: %" PRIu64 " of %u", all.forgotten, given);
}

/* Is the changed record reported as broken, or read without harm? */
static void spoil(size_t at, uint32_t value, bool refused, const char *what)
{
    uint32_t was = 0;
    int fd = open(the_record(), O_RDWR);
    OK(pread(fd, &was, sizeof was, (off_t)at) == sizeof was &&
           pwrite(fd, &value, sizeof value, (off_t)at) == sizeof value,
       "%s", what);
    read_all();
    OK(n_broken == refused && all.n_processes == !refused, "it is %s",
       refused ? "refused" : "read");
    OK(pwrite(fd, &was, sizeof was, (off_t)at) == sizeof was, "and it is restored");
    close(fd);
}

static void spoil_sample(size_t at, uint32_t value, const char *what)
{
    spoil(NS_RECORD_EVENTS_AT + at, value, false, what);
    OK(all.looks == NS_RECORD_EVENTS - 1, "without this sample: %" PRIu64, all.looks);
}

CHECK(check_hostile)
{
    struct ns_record_head head;
    size_t slots = NS_RECORD_SLOTS_AT, events = NS_RECORD_EVENTS_AT;
    spoil(0, 1, true, "another magic");
    spoil(offsetof(struct ns_record_head, version), 99, true, "another version");
    spoil(offsetof(struct ns_record_head, tick_ns), 0, true, "a clock without ticks");
    spoil(offsetof(struct ns_record_head, slots), 1u << 30, true, "more slots than possible");
    spoil(offsetof(struct ns_record_head, events), UINT32_MAX, true, "more samples than possible");
    spoil(offsetof(struct ns_record_head, name) + 60, 0x1b1b1b1b, false,
          "a name without a terminator");
    spoil(slots + offsetof(struct ns_record_slot, role), 77, false, "an unknown role");
    spoil(slots + offsetof(struct ns_record_slot, n_writes), UINT32_MAX, false,
          "billions of writes");
    spoil_sample(offsetof(struct ns_record_event, slot), 1u << 31, "a sample of no slot");
    spoil_sample(offsetof(struct ns_record_event, life), 0, "a sample of no connection");
    spoil_sample(offsetof(struct ns_record_event, complete), 7, "a sample that is being written");
    spoil(events + offsetof(struct ns_record_event, look) + offsetof(struct ns_look, at),
          UINT32_MAX, false, "a sample from the future");
    for (size_t size = NS_RECORD_EVENTS_AT + 100; size > 0; size /= 3) {
        OK(truncate(the_record(), (off_t)size) == 0, "a record cut to %zu bytes", size);
        read_all();
        OK(n_broken == (size < sizeof head), "is read to its end");
    }
}

/* Other files are in the directory. */
CHECK(check_strangers)
{
    char name[2 * PATH_MAX];
    snprintf(name, sizeof name, "%s/1-1.record", directory);
    OK(mkfifo(name, 0600) == 0, "a pipe");
    snprintf(name, sizeof name, "%s/1-2.record", directory);
    OK(symlink("/etc/passwd", name) == 0, "a link");
    snprintf(name, sizeof name, "%s/1-3.record", directory);
    OK(mkdir(name, 0700) == 0, "and a directory");
    read_all();
    OK(n_broken == 4 && all.n_processes == 0, "are no records: %zu", n_broken);
    OK(ns_recorded_read(-1, &all) == 0, "nothing is in a missing directory");
}

CHECK(remove_all)
{
    char command[PATH_MAX];
    snprintf(command, sizeof command, "rm -r %s", directory);
    OK(system(command) == 0, "everything is removed");
}
