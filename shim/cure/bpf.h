/* SPDX-License-Identifier: MIT */
/* bpf(2), as far as `nagleshim cure` needs it. Each function returns a descriptor or 0, or -errno.
 * All descriptors are close-on-exec. */
#ifndef NS_BPF_H
#define NS_BPF_H

#include <linux/bpf.h>
#include <stddef.h>
#include <stdint.h>

/* A map that has a number for each socket. */
int ns_bpf_marks(void);

int ns_bpf_load(enum bpf_prog_type type, enum bpf_attach_type attach, const struct bpf_insn *code,
                size_t n);

/* Runs the program in the control group, beside those of others, until the link's last descriptor
 * and its name in the BPF file system are gone. */
int ns_bpf_link(int program, int group, enum bpf_attach_type attach);

/* Replaces the program of a link. */
int ns_bpf_replace(int link, int program);

/* Gives an object a name in the BPF file system; opens an object by its name. */
int ns_bpf_pin(int object, const char *path);
int ns_bpf_open(const char *path);

#endif
