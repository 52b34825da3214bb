/* CPU levels of the kernels in this folder.
 *
 * A kernel source is compiled once per level; KERNEL(name) gives its functions the level's suffix. A table of
 * function pointers, indexed by level, belongs to the .pyx that calls them. A level that the compiler cannot
 * build or this platform does not have is NULL in such a table: take the nearest lower one.
 *
 * Each extension module links its own copy of dispatch.c, so setting a level in one does not change another.
 */
#ifndef JAMMA_DISPATCH_H
#define JAMMA_DISPATCH_H

enum { JAMMA_BASELINE = 0, JAMMA_AVX2 = 1, JAMMA_AVX512 = 2, JAMMA_AMX = 3, JAMMA_NEON = 4, JAMMA_N_LEVELS = 5 };

#define JAMMA_CAT_(a, b) a##_##b
#define JAMMA_CAT(a, b) JAMMA_CAT_(a, b)
#define KERNEL(name) JAMMA_CAT(name, JAMMA_LEVEL)

/* The level in use: the best that CPU, operating system and this build have, or the one set by jamma_set_level. */
int jamma_level(void);
/* Is the level built in, and can this CPU run it? */
int jamma_level_available(int level);
/* Use a level from now on (tests); -1 returns to the best. Returns 0, or -1 where the level is not available. */
int jamma_set_level(int level);
const char *jamma_level_name(int level);

#endif
