/* Finds a BLAS/LAPACK with 64-bit integers in a shared library, without linking to any.
 *
 * The names of the routines differ between builds: scipy_dgemm_64_ in NumPy's wheels, dgemm_64_ in other OpenBLAS
 * builds, dgemm_64 in MKL, dgemm$NEWLAPACK$ILP64 in Accelerate, plain dgemm_ in Debian's 64-bit OpenBLAS. So the
 * known decorations are tried in turn (as libblastrampoline does) on IDAMAX, and the first under which it has 64-bit
 * integers is taken. The width is measured by a call and never read off the name: plain dgemm_ is the LP64 name
 * too, and a library that truncates a dimension to 32 bits gives wrong numbers without any sign.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "resolve.h"

#include <stdio.h>
#include <string.h>

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

static void *open_library(const char *path, char *message, size_t size)
{
    wchar_t wide[4096];
    void *handle = NULL;
    if (MultiByteToWideChar(CP_UTF8, 0, path, -1, wide, 4096))
        /* the library's own folder is searched for what it needs (libiomp5md.dll beside mkl_rt.dll) */
        handle = (void *)LoadLibraryExW(wide, NULL, strpbrk(path, "/\\") ? LOAD_WITH_ALTERED_SEARCH_PATH : 0);
    if (!handle)
        snprintf(message, size, "LoadLibrary failed with error %lu", (unsigned long)GetLastError());
    return handle;
}

static jamma_function find_symbol(void *handle, const char *name)
{
    return (jamma_function)GetProcAddress((HMODULE)handle, name);
}

static void find_file(struct jamma_blas *out)
{
    wchar_t wide[4096];
    DWORD length = GetModuleFileNameW((HMODULE)out->handle, wide, 4096);
    if (length == 0 || length >= 4096 ||
        !WideCharToMultiByte(CP_UTF8, 0, wide, -1, out->file, (int)sizeof out->file, NULL, NULL))
        out->file[0] = 0;
}
#else
#include <dlfcn.h>

#ifndef RTLD_DEEPBIND
#define RTLD_DEEPBIND 0
#endif

/* RTLD_LOCAL keeps its dgemm_ from other modules; RTLD_DEEPBIND keeps another library's dgemm_ (preloaded, or opened
 * with RTLD_GLOBAL, perhaps with 32-bit integers) out of its own inner calls. */
static void *open_library(const char *path, char *message, size_t size)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    if (!handle) {
        const char *said = dlerror();
        snprintf(message, size, "%s", said ? said : "dlopen failed");
    }
    return handle;
}

static jamma_function find_symbol(void *handle, const char *name)
{
    union {
        void *object;
        jamma_function function;
    } symbol;
    symbol.object = dlsym(handle, name);
    return symbol.function;
}

static void find_file(struct jamma_blas *out)
{
    Dl_info where;
    union {
        void *object;
        jamma_function function;
    } symbol;
    symbol.function = out->routine[JAMMA_BLAS_idamax];
    if (dladdr(symbol.object, &where) && where.dli_fname)
        snprintf(out->file, sizeof out->file, "%s", where.dli_fname);
}
#endif

static const char *const routine_names[JAMMA_BLAS_N] = {
#define JAMMA_NAME(name) #name,
    JAMMA_BLAS_ROUTINES(JAMMA_NAME)
#undef JAMMA_NAME
};

/* Decorations, those that mean 64-bit integers first: a library may have both kinds (MKL's dgemm_ is LP64). */
static const struct {
    const char *prefix, *suffix;
} decorations[] = {
    {"scipy_", "_64_"}, {"", "_64_"}, {"", "64_"}, {"", "_64"}, {"", "$NEWLAPACK$ILP64"},
    {"scipy_", "_"},    {"", "_"},    {"", ""},
};

static const char *const config_functions[] = {
    "scipy_openblas_get_config64_", "scipy_openblas_get_config", "openblas_get_config64_", "openblas_get_config",
};

int jamma_blas_probe_width(jamma_function idamax)
{
    typedef blas_int (*idamax_function)(const blas_int *, const double *, const blas_int *);
    /* In memory the 32-bit word that an LP64 library reads is 3; all 64 bits make a negative length, for which IDAMAX
     * must return 0 without touching x. */
    const uint32_t words[2] = {3, UINT32_C(0xffffffff)};
    const double x[3] = {1, 3, 2};
    const blas_int one = 1;
    blas_int n, three = 3;
    memcpy(&n, words, sizeof n);
    if (n >= 0) /* big-endian: no length is 3 in the first word and negative in both */
        return 0;
    /* An LP64 function leaves the upper half of the result's register undefined. */
    const uint32_t found = (uint32_t)((idamax_function)idamax)(&n, x, &one);
    const uint32_t plain = (uint32_t)((idamax_function)idamax)(&three, x, &one);
    if (plain != 2)
        return 0;
    return found == 0 ? 64 : found == 2 ? 32 : 0;
}

static jamma_function find_routine(const struct jamma_blas *blas, int routine)
{
    char name[64];
    snprintf(name, sizeof name, "%s%s%s", blas->prefix, routine_names[routine], blas->suffix);
    return find_symbol(blas->handle, name);
}

/* Take the first decoration whose IDAMAX has 64-bit integers; remember a narrower one for the message. */
static int find_decoration(struct jamma_blas *out)
{
    int status = JAMMA_RESOLVE_NO_SYMBOLS;
    for (size_t i = 0; i < sizeof decorations / sizeof *decorations; i++) {
        struct jamma_blas trial = *out;
        trial.prefix = decorations[i].prefix;
        trial.suffix = decorations[i].suffix;
        const jamma_function idamax = find_routine(&trial, JAMMA_BLAS_idamax);
        if (!idamax)
            continue;
        const int bits = jamma_blas_probe_width(idamax);
        if (bits == 64 || status == JAMMA_RESOLVE_NO_SYMBOLS) {
            out->prefix = trial.prefix;
            out->suffix = trial.suffix;
            out->routine[JAMMA_BLAS_idamax] = idamax;
            out->int_bits = bits;
            status = bits == 64 ? JAMMA_RESOLVE_OK : bits == 32 ? JAMMA_RESOLVE_LP64 : JAMMA_RESOLVE_UNKNOWN_WIDTH;
        }
        if (bits == 64)
            break;
    }
    return status;
}

static void find_version(struct jamma_blas *out)
{
    const jamma_function mkl = find_symbol(out->handle, "MKL_Get_Version_String");
    if (mkl) {
        ((void (*)(char *, int))mkl)(out->version, (int)sizeof out->version - 1);
        return;
    }
    for (size_t i = 0; i < sizeof config_functions / sizeof *config_functions; i++) {
        const jamma_function get = find_symbol(out->handle, config_functions[i]);
        if (get) {
            snprintf(out->version, sizeof out->version, "%s", ((const char *(*)(void))get)());
            return;
        }
    }
}

int jamma_blas_resolve(const char *path, struct jamma_blas *out)
{
    memset(out, 0, sizeof *out);
    out->prefix = out->suffix = "";
    out->handle = open_library(path, out->message, sizeof out->message);
    if (!out->handle)
        return JAMMA_RESOLVE_NO_FILE;
    /* The handle is never closed: a BLAS leaves threads behind that run its code. */
    const int status = find_decoration(out);
    if (status == JAMMA_RESOLVE_NO_SYMBOLS)
        return status;
    find_file(out);
    find_version(out);
    if (status != JAMMA_RESOLVE_OK)
        return status;
    for (int i = 0; i < JAMMA_BLAS_N; i++) {
        out->routine[i] = find_routine(out, i);
        if (!out->routine[i]) {
            snprintf(out->message, sizeof out->message, "%s%s%s", out->prefix, routine_names[i], out->suffix);
            return JAMMA_RESOLVE_MISSING;
        }
    }
    return JAMMA_RESOLVE_OK;
}
