# Included by every extension whose kernels have CPU levels: which there are, and how the tests choose one.
cdef extern from "dispatch.h" nogil:
    enum: JAMMA_N_LEVELS
    int jamma_level()
    int jamma_level_available(int level)
    int jamma_set_level(int level)
    const char *jamma_level_name(int level)


def available_levels():
    """Names of the CPU levels that this build has and this machine can run, the plainest first."""
    return [jamma_level_name(i).decode() for i in range(JAMMA_N_LEVELS) if jamma_level_available(i)]


def level():
    """Name of the CPU level in use."""
    return jamma_level_name(jamma_level()).decode()


def set_level(name):
    """Use the CPU level `name` in this extension from now on; None: the best one (for tests)."""
    if name is None:
        jamma_set_level(-1)
        return
    for i in range(JAMMA_N_LEVELS):
        if jamma_level_name(i).decode() == name and jamma_set_level(i) == 0:
            return
    raise ValueError(f"CPU level {name}: expected one of {', '.join(available_levels())}")
