/* SPDX-License-Identifier: MIT */
/* A TUN device: packets of IP that a network namespace sends to it are read from a descriptor, and
 * what is written there arrives. Exits with 77 where there is no TUN to be had, which a test takes
 * for a reason to skip. Not async-signal-safe. */
#ifndef TESTS_TUN_H
#define TESTS_TUN_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum { TUN_MISSING = 77, TUN_MTU = 1500, TUN_QUEUE = 10000 };

static inline void tun_fail(const char *what, int status)
{
    fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, strerror(errno));
    exit(status);
}

/* Containers often have the driver and not its node in /dev. */
static inline int tun_open_driver(void)
{
    static const char node[] = "/dev/net/tun";
    char own[] = "/tmp/tun-XXXXXX";
    char path[sizeof(own) + 4];
    int fd = open(node, O_RDWR | O_CLOEXEC);
    if (fd >= 0 || errno != ENOENT || mkdtemp(own) == NULL)
        return fd;
    snprintf(path, sizeof(path), "%s/tun", own);
    if (mknod(path, S_IFCHR | 0600, makedev(10, 200)) == 0)
        fd = open(path, O_RDWR | O_CLOEXEC);
    unlink(path);
    rmdir(own);
    return fd;
}

static inline void tun_ioctl(int fd, unsigned long request, void *argument, const char *what)
{
    if (ioctl(fd, request, argument) != 0)
        tun_fail(what, 1);
}

static inline void tun_address(int control, struct ifreq *device, unsigned long request,
                               const char *text)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    if (inet_pton(AF_INET, text, &address.sin_addr) != 1) {
        errno = EINVAL;
        tun_fail(text, 2);
    }
    memcpy(&device->ifr_addr, &address, sizeof(address));
    tun_ioctl(control, request, device, "an address");
}

static inline void tun_set_up(int control, const char *name)
{
    struct ifreq device = {0};
    snprintf(device.ifr_name, sizeof(device.ifr_name), "%s", name);
    tun_ioctl(control, SIOCGIFFLAGS, &device, "SIOCGIFFLAGS");
    device.ifr_flags |= IFF_UP;
    tun_ioctl(control, SIOCSIFFLAGS, &device, "SIOCSIFFLAGS");
}

/* A device NAME in the caller's network namespace, with an address of its own and one of its peer,
 * and a queue so long that nothing is lost in it. The descriptor does not block. */
static inline int tun_create(const char *name, const char *own, const char *peer)
{
    struct ifreq device = {.ifr_flags = IFF_TUN | IFF_NO_PI};
    int control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int fd = tun_open_driver();
    if (fd < 0 || control < 0)
        tun_fail("/dev/net/tun", TUN_MISSING);
    snprintf(device.ifr_name, sizeof(device.ifr_name), "%s", name);
    if (ioctl(fd, TUNSETIFF, &device) != 0)
        tun_fail("TUNSETIFF", errno == EBUSY ? 1 : TUN_MISSING);
    tun_address(control, &device, SIOCSIFADDR, own);
    tun_address(control, &device, SIOCSIFDSTADDR, peer);
    device.ifr_mtu = TUN_MTU;
    tun_ioctl(control, SIOCSIFMTU, &device, "SIOCSIFMTU");
    device.ifr_qlen = TUN_QUEUE;
    tun_ioctl(control, SIOCSIFTXQLEN, &device, "SIOCSIFTXQLEN");
    tun_set_up(control, name);
    close(control);
    if (fcntl(fd, F_SETFL, O_NONBLOCK) != 0)
        tun_fail("O_NONBLOCK", 1);
    return fd;
}

#endif
