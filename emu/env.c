#include "emu/env.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base.h"
#include "emu/device.h"
#include "emu/machine.h"
#include "emu/mma_fp4.h"

extern char **environ;

#define MAX_THREADS 256
#define MAX_CLUSTERS 65535

static const struct env_row rows[] = {
    {"FP4EMU_DEVICE", "sm_90, sm_100, sm_103, sm_120", "by the first module",
     "the device to be; by default the one that the first module's .target names"},
    {"FP4EMU_SEED", "0 .. 2^64-1, decimal or 0x", "0",
     "where everything random starts; a report names it"},
    {"FP4EMU_STRATEGY",
     "eager, lazy, reverse, random[:P], pct[:D[:N]], starve:W, delay:OP[:N], "
     "replay:FILE",
     "eager", "how schedules are chosen; emu/README.md says what each one finds"},
    {"FP4EMU_CHECK", "off, default, all, pedantic; then ,+N ,-N ,N=error ,N=warn",
     "default", "hazard checks, by level and by number (docs/emulator-checks.md)"},
    {"FP4EMU_REPORT", "a file name", "none",
     "where reports are appended as JSON, one object a line"},
    {"FP4EMU_QUIET", "0, 1", "0", "1: no reports on stderr"},
    {"FP4EMU_ISA", "auto, scalar, avx2, avx512", "auto",
     "instructions that the matrix arithmetic uses; results are the same"},
    {"FP4EMU_THREADS", "auto, 1 .. 256", "auto", "host threads of a launch"},
    {"FP4EMU_MMA", "reference, hardware", "reference",
     "block-scaled sums are rounded once, or cut as Blackwell was measured to"},
    {"FP4EMU_CLUSTERS", "auto, all, 1 .. 65535", "auto",
     "clusters launched at first; auto: a quarter where a kernel takes others over"},
    {"FP4EMU_RECORD", "a file name", "nowhere",
     "where the choices of random, pct and replay are appended"},
    {"FP4EMU_TRACE", "a file name", "none",
     "where the virtual time line of the first clusters is written, as JSON"},
    {"FP4EMU_COVERAGE", "0, 1", "0", "1: fp4emu_coverage() tells what came to pass"},
    {"FP4EMU_STEPS", "0 .. 2^64-1", "2^32",
     "warp instructions of a cluster before the launch is ended; 0: no limit"},
    {"FP4EMU_PRINT", "0 .. 2^64-1", "2^26",
     "bytes that printf may write before the launch is ended; 0: no limit"},
    {"FP4EMU_SMEM", "aligned, declared", "aligned",
     "dynamic shared memory starts at a multiple of 1024, or of what is declared "
     "alone"},
    {"FP4EMU_APPROX", "nearest, perturb", "nearest",
     "approximate instructions: correctly rounded, or up to a unit off, by the seed"},
};

const struct env_row *env_row(size_t i)
{
    return i < COUNT_OF(rows) ? &rows[i] : NULL;
}

/* ---- values */

static bool read_word(const char *value, const char *const *words, int count, int *out)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(value, words[i]) == 0) {
            *out = i;
            return true;
        }
    }
    return false;
}

static bool read_u64(const char *value, uint64_t *out)
{
    /* strtoull takes blanks and signs; a seed has neither. */
    bool hex = value[0] == '0' && (value[1] == 'x' || value[1] == 'X');
    const char *digits = hex ? value + 2 : value;
    size_t valid = strspn(digits, hex ? "0123456789abcdefABCDEF" : "0123456789");
    if (digits[0] == '\0' || digits[valid] != '\0')
        return false;
    errno = 0;
    *out = strtoull(digits, NULL, hex ? 16 : 10);
    return errno == 0;
}

static bool read_threads(const char *value, int *out)
{
    uint64_t n;
    if (strcmp(value, "auto") == 0) {
        *out = 0;
        return true;
    }
    if (!read_u64(value, &n) || n < 1 || n > MAX_THREADS)
        return false;
    *out = (int)n;
    return true;
}

static bool read_clusters(const char *value, int *out)
{
    uint64_t n;
    if (strcmp(value, "auto") == 0 || strcmp(value, "all") == 0) {
        *out = value[1] == 'u' ? ENV_CLUSTERS_AUTO : ENV_CLUSTERS_ALL;
        return true;
    }
    if (!read_u64(value, &n) || n < 1 || n > MAX_CLUSTERS)
        return false;
    *out = (int)n;
    return true;
}

static bool read_device(const char *value, const char **out)
{
    const struct device *d = device_find(value);
    *out = d ? d->name : NULL;
    return d != NULL;
}

static bool read_isa(const char *value, const char **out, char *why, size_t why_bytes)
{
    enum mma_isa isa;
    bool is_auto = strcmp(value, "auto") == 0;
    *out = is_auto ? NULL : value;
    return is_auto || mma_isa_choose(value, &isa, why, why_bytes);
}

static bool read_report(const char *value, const char **out, char *why,
                        size_t why_bytes)
{
    FILE *f = fopen(value, "a");
    if (!f) {
        snprintf(why, why_bytes, "%s", strerror(errno));
        return false;
    }
    fclose(f);
    *out = value;
    return true;
}

/* The variable of row `i` has `value`. */
static bool read_value(struct env *e, size_t i, const char *value, char *why,
                       size_t why_bytes)
{
    static const char *const switches[] = {"0", "1"};
    static const char *const modes[] = {"reference", "hardware"};
    static const char *const places[] = {"aligned", "declared"};
    static const char *const approximations[] = {"nearest", "perturb"};
    int n = 0;
    bool ok = false;

    switch (i) {
    case 0:
        return read_device(value, &e->device);
    case 1:
        return read_u64(value, &e->seed);
    case 2:
        return strategy_parse(value, &e->strategy, &e->rule, why, why_bytes);
    case 3:
        return check_set_parse(value, &e->check, why, why_bytes);
    case 4:
        return read_report(value, &e->report, why, why_bytes);
    case 5:
        ok = read_word(value, switches, COUNT_OF(switches), &n);
        e->quiet = n != 0;
        return ok;
    case 6:
        return read_isa(value, &e->isa, why, why_bytes);
    case 7:
        return read_threads(value, &e->threads);
    case 8:
        ok = read_word(value, modes, COUNT_OF(modes), &n);
        e->mma = (enum mma_mode)n;
        return ok;
    case 9:
        return read_clusters(value, &e->clusters);
    case 10:
        return read_report(value, &e->record, why, why_bytes);
    case 11:
        return read_report(value, &e->trace, why, why_bytes);
    case 12:
        ok = read_word(value, switches, COUNT_OF(switches), &n);
        e->coverage = n != 0;
        return ok;
    case 13:
        return read_u64(value, &e->steps);
    case 14:
        return read_u64(value, &e->print);
    case 15:
        ok = read_word(value, places, COUNT_OF(places), &n);
        e->smem_as_declared = n != 0;
        return ok;
    default:
        ok = read_word(value, approximations, COUNT_OF(approximations), &n);
        e->perturb = n != 0;
        return ok;
    }
}

/* ---- the environment */

static bool is_known(const char *name, size_t bytes)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (strlen(rows[i].name) == bytes && memcmp(rows[i].name, name, bytes) == 0)
            return true;
    return false;
}

static bool names_are_known(char *error, size_t error_bytes)
{
    static const char prefix[] = "FP4EMU_";
    for (char **v = environ; v && *v; v++) {
        size_t bytes = strcspn(*v, "=");
        if (strncmp(*v, prefix, sizeof prefix - 1) != 0 || is_known(*v, bytes))
            continue;
        int at = snprintf(error, error_bytes,
                          "%.*s is no variable of the emulator; "
                          "it has",
                          (int)bytes, *v);
        for (size_t i = 0; i < COUNT_OF(rows); i++) {
            if (at < 0 || (size_t)at >= error_bytes)
                break;
            at += snprintf(error + at, error_bytes - (size_t)at, "%s %s", i ? "," : "",
                           rows[i].name);
        }
        return false;
    }
    return true;
}

#define NORMAL                                                                         \
    {                                                                                  \
        .strategy = STRATEGY_EAGER, .steps = (uint64_t)1 << 32, .print = 1 << 26       \
    }

bool env_read(struct env *e, char *error, size_t error_bytes)
{
    static const struct env normal = NORMAL;
    *e = normal;
    if (!names_are_known(error, error_bytes))
        return false;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char why[160] = "";
        const char *value = getenv(rows[i].name);
        if (!value || value[0] == '\0' || read_value(e, i, value, why, sizeof why))
            continue;
        snprintf(error, error_bytes, "%s is \"%s\"%s%s; allowed: %s", rows[i].name,
                 value, why[0] ? ": " : "", why, rows[i].allowed);
        return false;
    }
    return true;
}

/* ---- what the process runs with */

static struct env used = NORMAL;
static char used_text[5][4096];

static const char *keep(size_t slot, const char *text)
{
    if (!text)
        return NULL;
    snprintf(used_text[slot], sizeof used_text[slot], "%s", text);
    return used_text[slot];
}

/* The program may go to another directory before something is to be reported. */
static const char *keep_path(size_t slot, const char *path)
{
    char here[2048];
    if (!path || path[0] == '/' || !getcwd(here, sizeof here))
        return keep(slot, path);
    snprintf(used_text[slot], sizeof used_text[slot], "%s/%s", here, path);
    return used_text[slot];
}

const struct env *env(void)
{
    return &used;
}

void env_use(const struct env *e)
{
    used = *e;
    used.device = keep(0, e->device);
    used.report = keep_path(1, e->report);
    used.isa = keep(2, e->isa);
    used.record = keep_path(3, e->record);
    used.trace = keep_path(4, e->trace);
}

void env_set_seed(uint64_t seed)
{
    used.seed = seed;
}

void env_set_strategy(enum strategy strategy, const struct rule *rule)
{
    used.strategy = strategy;
    used.rule = *rule;
}
