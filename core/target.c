#include "core/target.h"

#include <stddef.h>
#include <string.h>

static const struct target targets[] = {
#define TARGET(name, cc, suffix, version, features, smem, tmem, runs_on)               \
    {name, cc, suffix, version, features, smem, tmem, runs_on},
#include "core/targets.def"
#undef TARGET
};

static const char *const feature_names[] = {
    "sm_80 instructions",
    "e4m3 conversion",
    "sm_90 instructions",
    "wgmma",
    "setmaxnreg",
    "sm_100 instructions",
    "tcgen05",
    ".scale_vec",
    "e2m1 conversion",
    "cvt.rs",
    "redux.sync.f32",
    "mma block_scale",
    "tcgen05.shift",
    "tcgen05.ld.red",
    "K = 96",
};

const struct target *target_at(int i)
{
    const int count = (int)(sizeof targets / sizeof targets[0]);
    return i >= 0 && i < count ? &targets[i] : NULL;
}

const struct target *target_find(const char *name)
{
    const struct target *t;
    for (int i = 0; (t = target_at(i)); i++)
        if (strcmp(t->name, name) == 0)
            return t;
    return NULL;
}

const char *target_feature_name(uint32_t feature)
{
    for (unsigned i = 0; i < sizeof feature_names / sizeof feature_names[0]; i++)
        if (feature == 1u << i)
            return feature_names[i];
    return "?";
}

bool target_runs_on(const struct target *t, int cc)
{
    if (t->suffix == 'a')
        return cc == t->cc;
    if (t->suffix == 'f') /* same family: same tens, not older */
        return cc / 10 == t->cc / 10 && cc >= t->cc;
    return cc >= t->cc;
}
