#include "emu/launch.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emu/choice.h"
#include "emu/coverage.h"
#include "emu/depend.h"
#include "emu/env.h"
#include "emu/memory.h"
#include "emu/report.h"
#include "emu/role.h"
#include "emu/timeline.h"

#define PARAM_ALIGN_BYTES 128
#define PARAM_MAX_BYTES 32764
#define MAX_BLOCK_THREADS 1024
#define PORTABLE_CLUSTER 8
#define DEFAULT_SMEM_BYTES (48 * 1024)
#define BLOCK_RESERVED_BYTES 1024 /* of shared memory, for the system */
#define REGISTERS_PER_SM 65536

/* ---- limits */

static CUresult check_dims(const CUlaunchConfig *c, const struct CUfunc_st *f)
{
    const uint32_t *need = f->ptx->reqntid, *most = f->ptx->maxntid;
    uint64_t threads = (uint64_t)c->blockDimX * c->blockDimY * c->blockDimZ;

    if (!c->gridDimX || !c->gridDimY || !c->gridDimZ || c->gridDimX > INT32_MAX ||
        c->gridDimY > 65535 || c->gridDimZ > 65535)
        return CUDA_ERROR_INVALID_VALUE;
    if (!threads || c->blockDimX > MAX_BLOCK_THREADS ||
        c->blockDimY > MAX_BLOCK_THREADS || c->blockDimZ > 64 ||
        threads > MAX_BLOCK_THREADS)
        return CUDA_ERROR_INVALID_VALUE;
    if (need[0] &&
        (c->blockDimX != need[0] || c->blockDimY != (need[1] ? need[1] : 1) ||
         c->blockDimZ != (need[2] ? need[2] : 1)))
        return CUDA_ERROR_INVALID_VALUE;
    if (most[0] && threads > (uint64_t)function_max_threads(f))
        return CUDA_ERROR_INVALID_VALUE;
    if (f->ptx->maxnreg && threads * f->ptx->maxnreg > REGISTERS_PER_SM)
        return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    return CUDA_SUCCESS;
}

static CUresult check_smem(uint32_t dyn_bytes, const struct CUfunc_st *f)
{
    uint32_t fixed = f->kernel->static_smem_bytes;
    uint32_t normal = fixed < DEFAULT_SMEM_BYTES ? DEFAULT_SMEM_BYTES - fixed : 0;
    uint32_t most = f->max_dyn_smem_bytes > normal ? f->max_dyn_smem_bytes : normal;
    return dyn_bytes <= most ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult check_cluster(struct launch *l)
{
    const struct CUfunc_st *f = l->function;
    const uint32_t *required = f->cluster;
    const uint32_t *dim = l->dim;
    uint32_t most = f->nonportable_cluster ? (uint32_t)shown_device()->max_cluster
                                           : PORTABLE_CLUSTER;
    bool given = l->cluster[0] != 0;

    for (int i = 0; i < 3; i++) {
        uint32_t need = required[i] ? required[i] : 1;
        if (!given)
            l->cluster[i] = required[0] ? need : 1;
        else if (required[0] && l->cluster[i] != need)
            return CUDA_ERROR_INVALID_CLUSTER_SIZE;
        if (!l->cluster[i] || dim[i] % l->cluster[i])
            return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    }
    uint64_t ctas = (uint64_t)l->cluster[0] * l->cluster[1] * l->cluster[2];
    if (!given && !required[0] && f->ptx->explicit_cluster)
        return CUDA_ERROR_INVALID_CLUSTER_SIZE; /* must be given, and is not */
    return ctas <= most ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CLUSTER_SIZE;
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

int launch_blocks_per_sm(const struct CUfunc_st *f, int threads,
                         uint64_t dyn_smem_bytes)
{
    const struct device *d = shown_device();
    int warps = (threads + WARP_LANES - 1) / WARP_LANES;
    /* Registers are given out by 8 a thread, 256 a warp. */
    int warp_registers = (function_registers(f) + 7) / 8 * 8 * WARP_LANES;
    uint64_t smem = (f->kernel->static_smem_bytes + dyn_smem_bytes + 127) / 128 * 128 +
                    BLOCK_RESERVED_BYTES;
    int by_warps = d->threads_per_sm / WARP_LANES / warps;
    int by_registers = REGISTERS_PER_SM / (warp_registers * warps);
    int by_smem =
        smem > (uint64_t)d->smem_per_sm_bytes ? 0 : d->smem_per_sm_bytes / (int)smem;
    return least(least(by_warps, by_registers), least(by_smem, d->blocks_per_sm));
}

static CUresult check_cooperative(const struct launch *l)
{
    int threads = (int)(l->block[0] * l->block[1] * l->block[2]);
    uint64_t ctas = (uint64_t)l->dim[0] * l->dim[1] * l->dim[2];
    uint64_t fit =
        (uint64_t)launch_blocks_per_sm(l->function, threads, l->dyn_smem_bytes) *
        (uint64_t)shown_device()->sm_count;
    return ctas <= fit ? CUDA_SUCCESS : CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
}

/* ---- attributes */

/* Unknown attributes are refused: what a program asks for must not be dropped silently.
 */
static CUresult read_attribute(struct launch *l, const CUlaunchAttribute *a)
{
    switch ((int)a->id) {
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
        l->cluster[0] = a->value.clusterDim.x;
        l->cluster[1] = a->value.clusterDim.y;
        l->cluster[2] = a->value.clusterDim.z;
        return l->cluster[0] && l->cluster[1] && l->cluster[2]
                   ? CUDA_SUCCESS
                   : CUDA_ERROR_INVALID_CLUSTER_SIZE;
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        l->cooperative = a->value.cooperative != 0;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
        l->programmatic = a->value.programmaticStreamSerializationAllowed != 0;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_IGNORE:
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
    case 11: /* CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION, new in CUDA 12.8 */
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
    case 16: /* CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING, new in CUDA 13.0 */
        return CUDA_SUCCESS; /* without effect where one launch follows the other */
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
    case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
    case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
        return CUDA_ERROR_NOT_SUPPORTED;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* ---- parameters */

static CUresult find_buffer(void **extra, const uint8_t **from, size_t *bytes)
{
    *from = NULL;
    *bytes = 0;
    for (;; extra += 2) {
        if (extra[0] == CU_LAUNCH_PARAM_END)
            return *from ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
        if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            *from = extra[1];
        else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE && extra[1])
            memcpy(bytes, extra[1], sizeof *bytes);
        else
            return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult new_params(struct launch *l)
{
    size_t bytes = (l->param_bytes + PARAM_ALIGN_BYTES - 1) / PARAM_ALIGN_BYTES *
                   PARAM_ALIGN_BYTES;
    void *p = NULL;
    if (posix_memalign(&p, PARAM_ALIGN_BYTES, bytes) != 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memset(p, 0, bytes);
    l->params = p;
    return CUDA_SUCCESS;
}

static CUresult pack_params(struct launch *l, void **params, void **extra)
{
    const struct ptx_func *x = l->function->ptx;
    const uint8_t *from = NULL;
    size_t bytes = 0;
    CUresult r;

    l->param_bytes = x->param_bytes;
    if (params && extra)
        return CUDA_ERROR_INVALID_VALUE;
    if (!l->param_bytes)
        return CUDA_SUCCESS;
    if ((!params && !extra) || l->param_bytes > PARAM_MAX_BYTES)
        return CUDA_ERROR_INVALID_VALUE;
    if (extra) {
        r = find_buffer(extra, &from, &bytes);
        if (r != CUDA_SUCCESS || bytes < l->param_bytes)
            return CUDA_ERROR_INVALID_VALUE;
    }
    for (int i = 0; params && i < x->param_count; i++)
        if (!params[i])
            return CUDA_ERROR_INVALID_VALUE;
    r = new_params(l);
    if (r != CUDA_SUCCESS)
        return r;
    if (from)
        memcpy(l->params, from, l->param_bytes);
    for (int i = 0; params && i < x->param_count; i++)
        memcpy(l->params + x->params[i]->offset_bytes, params[i], x->params[i]->bytes);
    return CUDA_SUCCESS;
}

CUresult launch_check(struct launch *out, const CUlaunchConfig *config,
                      struct CUfunc_st *f)
{
    *out = (struct launch){
        .function = f,
        .dim = {config->gridDimX, config->gridDimY, config->gridDimZ},
        .block = {config->blockDimX, config->blockDimY, config->blockDimZ},
        .dyn_smem_bytes = config->sharedMemBytes,
    };
    CUresult r = check_dims(config, f);
    if (config->numAttrs && !config->attrs)
        r = CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; r == CUDA_SUCCESS && i < config->numAttrs; i++)
        r = read_attribute(out, &config->attrs[i]);
    if (r == CUDA_SUCCESS)
        r = check_smem(config->sharedMemBytes, f);
    if (r == CUDA_SUCCESS)
        r = check_cluster(out);
    return r == CUDA_SUCCESS && out->cooperative ? check_cooperative(out) : r;
}

CUresult launch_prepare(struct launch *out, const CUlaunchConfig *config,
                        struct CUfunc_st *f, void **params, void **extra)
{
    CUresult r = launch_check(out, config, f);
    return r == CUDA_SUCCESS ? pack_params(out, params, extra) : r;
}

CUresult launch_copy(struct launch *out, const struct launch *l)
{
    *out = *l;
    out->params = NULL;
    if (!l->params)
        return CUDA_SUCCESS;
    CUresult r = new_params(out);
    if (r == CUDA_SUCCESS)
        memcpy(out->params, l->params, l->param_bytes);
    return r;
}

void launch_free(struct launch *l)
{
    free(l->params);
    l->params = NULL;
}

/* ---- running */

/* One launch at a time: its grid stays readable for launch_get_stats() afterwards. */
static struct grid grid;
static atomic_ullong launch_count, launch_ctas;
static _Atomic double launch_seconds;
static atomic_bool launch_running;
static char *report_copy;

static CUresult result_of(const struct report *r)
{
    if (report_is_hang(r))
        return CUDA_ERROR_LAUNCH_TIMEOUT;
    switch (report_check(r)) {
    case CHECK_NONE:
        return CUDA_SUCCESS;
    case CHECK_OUT_OF_BOUNDS:
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    case CHECK_ALIGNMENT:
        return CUDA_ERROR_MISALIGNED_ADDRESS;
    case CHECK_ASSERT:
        return CUDA_ERROR_ASSERT;
    case CHECK_TMEM_LEAK:
        return CUDA_ERROR_TENSOR_MEMORY_LEAK;
    case CHECK_OPERAND:
        return CUDA_ERROR_ILLEGAL_INSTRUCTION;
    default:
        return CUDA_ERROR_LAUNCH_FAILED;
    }
}

/* Reports go to stderr as text and to FP4EMU_REPORT as JSON, each in one write, so that
 * those of several processes do not mix. */
static void write_report(const char *text, const char *json)
{
    const struct env *e = env();
    FILE *f = e->report ? fopen(e->report, "a") : NULL;
    if (f) {
        fputs(json, f);
        fclose(f);
    }
    if (!e->quiet)
        fputs(text, stderr);
}

static void tell(struct report *r, CUresult code)
{
    const struct env *e = env();
    const char *text = report_text(r), *name = "";
    char strategy[STRATEGY_MAX_TEXT + 16], again[sizeof strategy + 96];
    char more[2 * sizeof again + 100];
    size_t bytes = strlen(text) + sizeof again + 200;

    snprintf(again, sizeof again, "FP4EMU_STRATEGY=%s FP4EMU_SEED=%llu%s",
             strategy_text(e->strategy, &e->rule, strategy, sizeof strategy),
             (unsigned long long)e->seed, e->perturb ? " FP4EMU_APPROX=perturb" : "");
    cuGetErrorName(code, &name);
    free(report_copy);
    report_copy = malloc(bytes);
    if (!report_copy)
        return;
    if (code == CUDA_SUCCESS)
        snprintf(report_copy, bytes, "%s  again with %s\n", text, again);
    else
        snprintf(report_copy, bytes, "%s  again with %s; the driver returns %d, %s\n",
                 text, again, (int)code, name);
    char *to =
        more + snprintf(more, sizeof more, "\"result\":\"%s\",\"again\":\"", name);
    for (const char *p = again; *p; p++) { /* a path may hold anything */
        if (*p == '"' || *p == '\\')
            *to++ = '\\';
        *to++ = (unsigned char)*p < ' ' ? '?' : *p;
    }
    memcpy(to, "\"", 2);
    write_report(report_copy, report_json(r, more));
}

/* How many clusters are launched at first.  By default all, or where the kernel takes
 * clusters over, few enough that most are taken over: as many as a device has room for,
 * but no more than a quarter; strategies that go by chance take one of 1 to that many.
 */
static uint64_t first_clusters(const struct launch *l)
{
    int wanted = env()->clusters;
    uint64_t ctas = (uint64_t)l->cluster[0] * l->cluster[1] * l->cluster[2];
    uint64_t all = (uint64_t)l->dim[0] * l->dim[1] * l->dim[2] / ctas;
    if (l->cooperative || wanted == ENV_CLUSTERS_ALL)
        return 0;
    if (wanted > 0)
        return (uint64_t)wanted;
    if (!l->function->kernel->takes_over)
        return 0;
    uint64_t room = (uint64_t)shown_device()->sm_count / ctas;
    uint64_t most = (all + 3) / 4 < room ? (all + 3) / 4 : room;
    if (env()->strategy != STRATEGY_RANDOM && env()->strategy != STRATEGY_PCT)
        return most;
    return 1 + (env()->seed * 0x9e3779b97f4a7c15u >> 32) % most;
}

/* Size and barrier, as cooperative_groups/details/driver_abi.h (CUDA 13.0) has it. */
static _Alignas(MEMORY_ALIGN_BYTES) uint32_t workspace[2];

static bool add_workspace(const struct launch *l)
{
    workspace[0] = sizeof workspace;
    workspace[1] = 0;
    if (!memory_add(MEMORY_GLOBAL, workspace, sizeof workspace, l))
        return false;
    memory_label((uint64_t)(uintptr_t)workspace, "the grid's workspace", 0);
    return true;
}

static uint64_t most_resident(const struct launch *l)
{
    int threads = (int)(l->block[0] * l->block[1] * l->block[2]);
    uint64_t ctas = (uint64_t)l->cluster[0] * l->cluster[1] * l->cluster[2];
    uint64_t room =
        (uint64_t)launch_blocks_per_sm(l->function, threads, l->dyn_smem_bytes) *
        (uint64_t)shown_device()->sm_count / ctas;
    return room ? room : 1;
}

/* Of a thread; 0 where nothing bounds them, and setmaxnreg has no effect. */
static uint32_t registers_of(const struct CUfunc_st *f)
{
    bool has_block = f->ptx->maxntid[0] || f->ptx->reqntid[0];
    bool bounded = f->ptx->maxnreg || f->module->max_registers > 0 ||
                   (has_block && f->ptx->minnctapersm);
    return bounded ? (uint32_t)function_registers(f) : 0;
}

static void fill_grid(const struct launch *l, struct report *r)
{
    const struct env *e = env();
    /* Field by field: others may read the atomic ones right now. */
    grid.kernel = l->function->kernel;
    memcpy(grid.dim, l->dim, sizeof grid.dim);
    memcpy(grid.block, l->block, sizeof grid.block);
    memcpy(grid.cluster, l->cluster, sizeof grid.cluster);
    grid.dyn_smem_bytes = l->dyn_smem_bytes;
    grid.params = l->params;
    grid.param_bytes = l->param_bytes;
    grid.strategy = e->strategy;
    grid.rule = e->rule;
    grid.seed = e->seed;
    grid.threads = e->threads;
    grid.checks = &e->check;
    grid.no_checks = e->check.off;
    grid.mma_as_hardware = e->mma == MMA_HARDWARE;
    grid.perturb = e->perturb;
    grid.fp8_by_f16 = shown_device()->cc < 120;
    grid.sm_count = shown_device()->sm_count;
    grid.first_clusters = first_clusters(l);
    grid.most_resident = most_resident(l);
    grid.step_limit = e->steps;
    grid.print_limit = e->print;
    grid.stamp = e->check.off ? 0 : depend_stamp();
    grid.depends_on = l->depends_on;
    grid.workspace = l->cooperative ? (uint64_t)(uintptr_t)workspace : 0;
    grid.registers = registers_of(l->function);
    grid.id = atomic_load(&launch_count);
    grid.report = r;
    grid.footprint = across_footprint();
    grid.run = NULL;
    atomic_store(&grid.ctas_done, 0);
    atomic_store(&grid.steps, 0);
    atomic_store(&grid.visible, 0);
    atomic_store(&grid.printed, 0);
    coverage_free(grid.coverage);
    grid.coverage = e->coverage ? coverage_new() : NULL;
    atomic_store(&grid.global_events, 0);
    atomic_store(&grid.failed_cluster, 0);
}

/* The schedule to be followed, and where the one that is made is kept. */
struct schedules {
    struct deviations plan, record;
};

/* starve names a label that is not there: one line for a module, not for a launch. */
static void tell_label(const struct CUfunc_st *f)
{
    static const struct ptx_module *told;
    const char *label = rule_label(grid.strategy, &grid.rule);
    char labels[512], line[1024];
    if (!label || told == f->module->ptx ||
        role_labels(f->module->ptx, label, labels, sizeof labels))
        return;
    told = f->module->ptx;
    snprintf(
        line, sizeof line,
        "FP4EMU_STRATEGY=starve:%s: nobody is held back, as kernel %s has no branch "
        "to such a label; %s%s\n",
        label, f->ptx->name, labels[0] ? "its module has " : "its module has none",
        labels);
    write_report(line, "");
}

/* What the environment says of this launch's schedule.  A file that is gone or broken
 * means an empty plan, and one line that says so. */
static void begin_schedules(struct schedules *s, const struct CUfunc_st *f)
{
    const struct env *e = env();
    char why[STRATEGY_MAX_TEXT + 100], line[STRATEGY_MAX_TEXT + 200];
    *s = (struct schedules){.record.launch = grid.id};
    tell_label(f);
    grid.plan = grid.strategy == STRATEGY_REPLAY ? &s->plan : NULL;
    grid.record = e->record && strategy_explores(grid.strategy) ? &s->record : NULL;
    if (!grid.plan || deviations_read(&s->plan, e->rule.path, grid.id, why, sizeof why))
        return;
    snprintf(line, sizeof line, "FP4EMU_STRATEGY=replay: %s; nothing is replayed\n",
             why);
    write_report(line, "");
}

static void end_schedules(struct schedules *s)
{
    unsigned long long failed = atomic_load(&grid.failed_cluster);
    if (grid.record)
        deviations_write(&s->record, env()->record, grid.kernel,
                         failed ? failed - 1 : UINT64_MAX);
    deviations_free(&s->plan);
    deviations_free(&s->record);
    grid.plan = NULL;
    grid.record = NULL;
}

/* One file for all launches of the process. */
static struct trace *trace;

static void begin_trace(void)
{
    if (env()->trace && !trace)
        trace = trace_new();
    grid.trace = env()->trace ? trace : NULL;
    if (grid.trace)
        trace_start(trace, &grid);
}

static void end_trace(void)
{
    char *summary = NULL;
    if (!grid.trace)
        return;
    if (!trace_end(trace, &grid, env()->trace, &summary) && !env()->quiet)
        fprintf(stderr, "FP4EMU_TRACE: %s cannot be written\n", env()->trace);
    if (summary && !env()->quiet)
        fputs(summary, stderr);
    free(summary);
    grid.trace = NULL;
}

CUresult launch_run(const struct launch *l)
{
    struct report *r = report_new();
    struct schedules schedules;
    if ((l->params && !memory_add(MEMORY_PARAM, l->params, l->param_bytes, l)) ||
        (l->cooperative && !add_workspace(l))) {
        report_free(r);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    atomic_fetch_add(&launch_count, 1);
    atomic_store(&launch_ctas, (unsigned long long)l->dim[0] * l->dim[1] * l->dim[2]);
    atomic_store(&launch_seconds, 0.0);
    fill_grid(l, r);
    begin_schedules(&schedules, l->function);
    begin_trace();
    atomic_store(&launch_running, true);

    struct progress progress;
    progress_begin(&progress);
    double start = clock_seconds();
    bool fine = grid_run(&grid);
    if (fine)
        across_check(&grid);
    fine = fine && report_check(r) == CHECK_NONE;
    atomic_store(&launch_seconds, clock_seconds() - start);
    atomic_store(&launch_running, false);
    progress_end(&progress);
    end_schedules(&schedules);
    end_trace();

    if (l->params)
        memory_free((uint64_t)(uintptr_t)l->params);
    if (l->cooperative)
        memory_free((uint64_t)(uintptr_t)workspace);
    CUresult code = result_of(r);
    assert(fine == (code == CUDA_SUCCESS));
    if (!fine || report_warnings(r) > 0)
        tell(r, code);
    report_free(r);
    grid.report = NULL;
    return code;
}

CUresult launch_check_across(const char *what)
{
    struct report *r = report_new();
    const struct ptx_func func = {.name = what};
    const struct ptx_module module = {0};
    const struct kernel kernel = {.func = &func, .module = &module};
    struct grid g = {.kernel = &kernel, .report = r, .checks = &env()->check};
    across_check(&g);
    CUresult code = result_of(r);
    if (code != CUDA_SUCCESS || report_warnings(r) > 0)
        tell(r, code);
    report_free(r);
    return code;
}

uint8_t launch_stamp(void)
{
    return grid.stamp;
}

void launch_get_stats(struct launch_stats *out)
{
    out->launches = atomic_load(&launch_count);
    out->ctas = atomic_load(&launch_ctas);
    out->ctas_done = atomic_load(&grid.ctas_done);
    out->steps = atomic_load(&grid.steps);
    out->seconds = atomic_load(&launch_seconds);
    out->running = atomic_load(&launch_running);
}

uint64_t launch_visible(void)
{
    return atomic_load(&grid.visible);
}

size_t launch_coverage(unsigned long long *keys, size_t count)
{
    return coverage_keys(grid.coverage, keys, count);
}

const char *launch_report(void)
{
    return report_copy ? report_copy : "";
}
