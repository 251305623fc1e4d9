/* SPDX-License-Identifier: MIT */
/* An empty library: shows the cost of preloading any library. */
int nothing_at_all(void);
int nothing_at_all(void)
{
    return 0;
}
