/* SPDX-License-Identifier: MIT */
/* Reads a file of 64-byte lines with stdio again and again, and prints the time of a call.
 * Usage: bench_stdio fgets | fread | getc CALLS */
#include "../../../examples/common.h"

enum { LINE = 64, LINES = 4096 };

static FILE *lines(void)
{
    FILE *file = tmpfile();
    for (int i = 0; file != NULL && i < LINES; i++)
        fprintf(file, "%*d\n", LINE - 1, i);
    if (file == NULL || fflush(file) != 0)
        die_errno("tmpfile");
    return file;
}

/* One call; false at the end of the file. */
static bool reads(FILE *file, char how)
{
    char text[LINE + 1];
    if (how == 'g')
        return getc(file) != EOF;
    return how == 'f' ? fgets(text, sizeof text, file) != NULL : fread(text, LINE, 1, file) == 1;
}

int main(int argc, char **argv)
{
    long calls = argc == 3 ? atol(argv[2]) : 0;
    if (calls <= 0)
        die("usage: bench_stdio fgets | fread | getc CALLS");
    FILE *file = lines();
    char how = strcmp(argv[1], "fread") == 0 ? 'r' : argv[1][0];
    rewind(file);
    int64_t begun = now_ns();
    for (long i = 0; i < calls; i++)
        if (!reads(file, how))
            rewind(file);
    printf("ns_per_call %.3f\n", (double)(now_ns() - begun) / (double)calls);
    return 0;
}
