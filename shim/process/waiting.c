/* SPDX-License-Identifier: MIT */
/* See waiting.h. Owns the list of the children that are stuck. */
#include "process/waiting.h"

#include "process/proc.h"
#include "process/scope.h"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

enum { END_MS = 20, STUCK_MOST = 8, STUCK_MOST_OF_USER = 2 };
static const uid_t NOBODY = (uid_t)-1; /* setuid(2) refuses it */

/* Those that have not ended yet, and the user of the process that each waits for. pid 0: none. */
static struct stuck {
    pid_t pid;
    uid_t user;
} stuck[STUCK_MOST];

uid_t ns_waiting_user(pid_t pid)
{
    char path[32];
    uid_t owner;
    struct stat st;
    struct ns_proc proc = {0};
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    ns_proc_read_status(AT_FDCWD, path, &proc);
    snprintf(path, sizeof path, "/proc/%d/ns/user", pid);
    NS_AUTO_CLOSE int at = open(path, O_RDONLY | O_CLOEXEC);
    for (int above; at >= 0 && (above = ioctl(at, NS_GET_PARENT)) >= 0; at = above) {
        if (ioctl(at, NS_GET_OWNER_UID, &owner) == 0 && fstat(at, &st) == 0)
            proc.real_user = owner ? owner : (uid_t)st.st_ino;
        close(at);
    }
    return proc.real_user;
}

bool ns_waiting_is_full(uid_t user)
{
    unsigned all = 0, of_user = 0;
    for (size_t i = 0; i < STUCK_MOST; i++) {
        if (stuck[i].pid && waitpid(stuck[i].pid, NULL, WNOHANG) != 0)
            stuck[i].pid = 0;
        all += stuck[i].pid != 0;
        of_user += stuck[i].pid && stuck[i].user == user;
    }
    return all == STUCK_MOST || of_user >= STUCK_MOST_OF_USER;
}

bool ns_waiting_is_running(pid_t child)
{
    struct ns_state state;
    return ns_state_of(child, &state) == 0 && state.letter == 'R';
}

void ns_waiting_end(pid_t child, uid_t user)
{
    size_t i = 0;
    kill(child, SIGKILL);
    for (int ms = 0; ms < END_MS; ms++) {
        if (waitpid(child, NULL, WNOHANG) != 0)
            return;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    while (i < STUCK_MOST - 1 && stuck[i].pid)
        i++;
    stuck[i] = (struct stuck){child, user};
}

bool ns_waiting_has(pid_t pid)
{
    size_t i = 0;
    while (i < STUCK_MOST && stuck[i].pid != pid)
        i++;
    return pid && i < STUCK_MOST;
}

void ns_waiting_forgive(void)
{
    for (size_t i = 0; i < STUCK_MOST; i++)
        stuck[i].user = NOBODY;
}
