/* SPDX-License-Identifier: MIT */
/* A library with nothing in it: what a process pays for any library that it preloads. */
int nothing_at_all(void);
int nothing_at_all(void)
{
    return 0;
}
