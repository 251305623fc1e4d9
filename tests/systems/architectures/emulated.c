/* SPDX-License-Identifier: MIT */
/* Stands in for a program of another architecture: runs DIRECTORY/foreign/NAME, where
 * DIRECTORY/NAME is the name that it is called by, under qemu-user. LD_PRELOAD is for that program.
 * Linked statically, because the loader of this machine would report a library of another
 * architecture. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    char program[4096], preload[4096];
    const char *libraries = getenv("LD_PRELOAD");
    char **words = calloc((size_t)argc + 6, sizeof *words);
    int used = 0;
    if (!words)
        return 1;
    const char *slash = strrchr(argv[0], '/');
    int directory = slash ? (int)(slash + 1 - argv[0]) : 0;
    snprintf(program, sizeof program, "%.*sforeign/%s", directory, argv[0], argv[0] + directory);
    snprintf(preload, sizeof preload, "LD_PRELOAD=%s", libraries ? libraries : "");
    unsetenv("LD_PRELOAD");
    words[used++] = EMULATOR;
    words[used++] = "-L";
    words[used++] = ROOT;
    if (libraries) {
        words[used++] = "-E";
        words[used++] = preload;
    }
    words[used++] = program;
    for (int i = 1; i < argc; i++)
        words[used++] = argv[i];
    execvp(EMULATOR, words);
    perror(EMULATOR);
    return 127;
}
