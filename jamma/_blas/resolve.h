/* The routines of one BLAS/LAPACK library, found in its file at run time. */
#ifndef JAMMA_RESOLVE_H
#define JAMMA_RESOLVE_H

#include <stdint.h>

typedef int64_t blas_int;

/* The order is that of the enum and of the names; the first one is the probe, the rest are what jamma calls. */
#define JAMMA_BLAS_ROUTINES(X) \
    X(idamax) X(dgemm) X(dsyrk) X(dsyr2k) X(dsyevd) X(dsyevr) X(dsytrd) X(dsbtrd) X(dsterf)

#define JAMMA_ENUM(name) JAMMA_BLAS_##name,
enum { JAMMA_BLAS_ROUTINES(JAMMA_ENUM) JAMMA_BLAS_N };
#undef JAMMA_ENUM

enum {
    JAMMA_RESOLVE_OK = 0,
    JAMMA_RESOLVE_NO_FILE = -1,     /* the file cannot be loaded; the loader's words are in message */
    JAMMA_RESOLVE_NO_SYMBOLS = -2,  /* no BLAS under any known name */
    JAMMA_RESOLVE_MISSING = -3,     /* 64-bit integers, but a routine is missing; its name is in message */
    JAMMA_RESOLVE_LP64 = -4,        /* its integers have 32 bits */
    JAMMA_RESOLVE_UNKNOWN_WIDTH = -5
};

typedef void (*jamma_function)(void);

struct jamma_blas {
    void *handle;
    jamma_function routine[JAMMA_BLAS_N];
    int int_bits;            /* by the probe: 64, 32, or 0 where it is not known */
    const char *prefix;      /* the names are prefix + routine + suffix */
    const char *suffix;
    char file[4096];         /* where the loader found it */
    char version[256];       /* what the library says of itself; empty where it says nothing */
    char message[512];
};

/* Load a library by path or soname, find its routines, prove its integer width. Returns a JAMMA_RESOLVE code. */
int jamma_blas_resolve(const char *path, struct jamma_blas *out);

/* Integer width of an IDAMAX: 64, 32, or 0. Public for the tests. */
int jamma_blas_probe_width(jamma_function idamax);

#endif
