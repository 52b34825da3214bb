#include "dispatch.h"

#if defined(__linux__) && defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

static int forced = -1;
static int best = -1;

#ifdef JAMMA_HAVE_amx
/* Linux hands out the 8 KiB of tile registers only to processes that ask for them. */
static int amx_permitted(void)
{
#if defined(__linux__) && defined(__x86_64__)
    const long arch_req_xcomp_perm = 0x1023, xfeature_xtiledata = 18;
    return syscall(SYS_arch_prctl, arch_req_xcomp_perm, xfeature_xtiledata) == 0;
#else
    return 0;
#endif
}

/* CPUID leaf 7: EDX bit 24 is AMX-TILE, bit 25 AMX-INT8 (__builtin_cpu_supports of GCC 12 does not know them). */
#include <cpuid.h>
static int cpu_has_amx(void)
{
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d >> 24 & 1) && (d >> 25 & 1);
}
#endif

int jamma_level_available(int level)
{
    switch (level) {
    case JAMMA_BASELINE:
        return 1;
#ifdef JAMMA_HAVE_avx2
    case JAMMA_AVX2:
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
#endif
#ifdef JAMMA_HAVE_avx512
    case JAMMA_AVX512:
        return jamma_level_available(JAMMA_AVX2) && __builtin_cpu_supports("avx512f") &&
               __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
#endif
#ifdef JAMMA_HAVE_amx
    case JAMMA_AMX:
        return jamma_level_available(JAMMA_AVX512) && cpu_has_amx() && amx_permitted();
#endif
#ifdef JAMMA_HAVE_neon
    case JAMMA_NEON:
        return 1;
#endif
    default:
        return 0;
    }
}

int jamma_level(void)
{
    if (forced >= 0)
        return forced;
    if (best < 0) {
        int level = JAMMA_N_LEVELS - 1;
        while (!jamma_level_available(level))
            level--;
        best = level;
    }
    return best;
}

int jamma_set_level(int level)
{
    if (level >= 0 && !jamma_level_available(level))
        return -1;
    forced = level;
    return 0;
}

const char *jamma_level_name(int level)
{
    static const char *const names[JAMMA_N_LEVELS] = {"baseline", "avx2", "avx512", "amx", "neon"};
    return level >= 0 && level < JAMMA_N_LEVELS ? names[level] : "unknown";
}
