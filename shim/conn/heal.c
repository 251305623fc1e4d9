/* SPDX-License-Identifier: MIT */
/* See heal.h. Owns nothing. */
#include "conn/heal.h"

#include "report/log.h"
#include "conn/kernel.h"
#include "conn/process.h"

void ns_conn_heal(int fd, struct ns_conn *conn)
{
    if (ns_is_elsewhere() || ns_fd_conn(fd) != conn)
        return;
    NS_DEBUG(fd, "a call failed as it does on no TCP socket: asked again what it is");
    if (!ns_process_is_aside() && ns_kernel_ask(fd).tcp)
        /* A kernel that will not have our address: then plain writes. */
        NS_PUT(conn, immediate, NS_IMMEDIATE_NO_PUSH);
    else
        ns_fd_set(fd, NS_FD_UNKNOWN);
}
