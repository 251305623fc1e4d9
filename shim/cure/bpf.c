/* SPDX-License-Identifier: MIT */
/* See bpf.h. Owns no state. */
#include "cure/bpf.h"

#include <errno.h>
#include <linux/btf.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The kernel reads a pointer as 64 bits. */
static uint64_t address(const void *pointer)
{
    return (uintptr_t)pointer;
}

static int call(enum bpf_cmd command, union bpf_attr *attr)
{
    long result = syscall(SYS_bpf, command, attr, sizeof *attr);
    return result < 0 ? -errno : (int)result;
}

/* A map of this type needs a description of its numbers (BTF, Documentation/bpf/btf.rst). */
static int describe(void)
{
    static const struct {
        struct btf_header header;
        struct btf_type type;
        uint32_t encoding;
        char names[8];
    } text = {.header = {.magic = BTF_MAGIC,
                         .version = BTF_VERSION,
                         .hdr_len = sizeof text.header,
                         .type_len = sizeof text.type + sizeof text.encoding,
                         .str_off = sizeof text.type + sizeof text.encoding,
                         .str_len = sizeof text.names},
              .type = {.name_off = 1, .info = BTF_KIND_INT << 24, .size = sizeof(uint32_t)},
              .encoding = 8 * sizeof(uint32_t),
              .names = "\0mark"};
    union bpf_attr attr = {.btf = address(&text), .btf_size = sizeof text};
    return call(BPF_BTF_LOAD, &attr);
}

int ns_bpf_marks(void)
{
    int btf = describe();
    union bpf_attr attr = {.map_type = BPF_MAP_TYPE_SK_STORAGE,
                           .key_size = sizeof(uint32_t),
                           .value_size = sizeof(uint32_t),
                           .map_flags = BPF_F_NO_PREALLOC | BPF_F_CLONE,
                           .btf_fd = (uint32_t)btf,
                           .btf_key_type_id = 1,
                           .btf_value_type_id = 1,
                           .map_name = "nagleshim"};
    int map = btf < 0 ? btf : call(BPF_MAP_CREATE, &attr);
    if (btf >= 0)
        close(btf);
    return map;
}

int ns_bpf_load(enum bpf_prog_type type, enum bpf_attach_type attach, const struct bpf_insn *code,
                size_t n)
{
    union bpf_attr attr = {.prog_type = type,
                           .expected_attach_type = attach,
                           .insns = address(code),
                           .insn_cnt = (uint32_t)n,
                           .license = address("MIT"),
                           .prog_name = "nagleshim"};
    return call(BPF_PROG_LOAD, &attr);
}

int ns_bpf_link(int program, int group, enum bpf_attach_type attach)
{
    union bpf_attr attr = {.link_create = {.prog_fd = (uint32_t)program,
                                           .target_fd = (uint32_t)group,
                                           .attach_type = attach}};
    return call(BPF_LINK_CREATE, &attr);
}

int ns_bpf_replace(int link, int program)
{
    union bpf_attr attr = {
        .link_update = {.link_fd = (uint32_t)link, .new_prog_fd = (uint32_t)program}};
    return call(BPF_LINK_UPDATE, &attr);
}

int ns_bpf_pin(int object, const char *path)
{
    union bpf_attr attr = {.pathname = address(path), .bpf_fd = (uint32_t)object};
    return call(BPF_OBJ_PIN, &attr);
}

int ns_bpf_open(const char *path)
{
    union bpf_attr attr = {.pathname = address(path)};
    return call(BPF_OBJ_GET, &attr);
}
