// SPDX-License-Identifier: MIT
// A library with the note of the library, and with a status section such as other versions may
// have, or something has overwritten. NS_TEST_STATUS: "older", "newer", "garbage", "rules" or
// "escape"; with "hang" its constructor never ends. The layout of the first four members stands in
// every version.
#include "system.h"

struct status {
    uint64_t magic;
    uint32_t version, size;
    char library[16];
    uint32_t state, origin;
    uint64_t reason, policy, rules, counters;
    uint32_t n_rules, n_counters;
    uint64_t looked;
};

extern struct status doctor_status __attribute__((visibility("hidden")));
__attribute__((used)) struct status doctor_status;

__asm__(".pushsection .note.nagleshim,\"a\",%note\n"
        "    .balign 4\n"
        "    .long 10, 4, 1\n"
        "    .asciz \"nagleshim\"\n"
        "    .balign 4\n"
        "1:  .long doctor_status - 1b\n"
        ".popsection\n");

__attribute__((constructor)) static void begin(void)
{
    static const char reason[] = "because\033[31m of\nthis";
    const char *kind = getenv("NS_TEST_STATUS");
    if (!kind)
        return;
    if (strcmp(kind, "hang") == 0)
        for (;;)
            pause();
    if (strcmp(kind, "garbage") == 0) {
        memset(&doctor_status, 0x5a, sizeof(doctor_status));
        return;
    }
    doctor_status.magic = UINT64_C(0x4e53737461747573);
    doctor_status.version = strcmp(kind, "newer") == 0 ? 1000 : 1;
    doctor_status.size = strcmp(kind, "older") == 0 ? 32 : sizeof(doctor_status);
    memcpy(doctor_status.library, "9.9\033]0;x", sizeof("9.9\033]0;x"));
    if (strcmp(kind, "escape") == 0) {
        doctor_status.state = 2;
        doctor_status.reason = (uint64_t)(uintptr_t)reason;
    }
    if (strcmp(kind, "rules") == 0) { /* invalid addresses */
        doctor_status.state = 3;
        doctor_status.origin = 77;
        doctor_status.policy = doctor_status.rules = doctor_status.counters = UINT64_MAX - 7;
        doctor_status.n_rules = doctor_status.n_counters = UINT32_MAX;
    }
}
