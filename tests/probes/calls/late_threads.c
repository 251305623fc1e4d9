/* SPDX-License-Identifier: MIT */
/* A program that is not linked with libpthread and loads a plugin that is
 * (transparency_plugin): before glibc 2.34 the process has the thread calls only from then on, and
 * only for the plugin. */
#include "system.h"

int main(int argc, char **argv)
{
    int (*use_threads)(void);
    void *plugin = dlopen(argc > 1 ? argv[1] : "", RTLD_NOW | RTLD_LOCAL);
    void *found = plugin ? dlsym(plugin, "use_threads") : NULL;
    if (!found) {
        printf("%s\n", dlerror());
        return 2;
    }
    memcpy(&use_threads, &found, sizeof use_threads);
    return use_threads();
}
