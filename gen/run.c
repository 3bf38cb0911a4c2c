#include "gen/run.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "gen/run_check.h"
#include "gen/run_epilogue.h"
#include "gen/run_lines.h"
#include "gen/run_expr.h"
#include "gen/run_quantize.h"
#include "gen/run_state.h"
#include "gen/run_unused.h"
#include "gen/verbs.h"
#include "runtime/fp4gen.h"
#include "runtime/manifest.h"

#define BAR_AFTER_S 1.0 /* shorter runs show no progress */
#define BAR_CHARS 40

enum { DONE = 0, FAILED = 1, MISUSED = 2 };

struct run_options run_defaults(void)
{
    return (struct run_options){.m = -1,
                                .n = -1,
                                .k = -1,
                                .alpha = 1,
                                .device = -1,
                                .repeat = 1,
                                .pad_byte = 0x7f};
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- What is run */

static bool read_kernel(struct run *r)
{
    if (!r->o->ptx_path) {
        r->job = job_run(&r->o->job);
        if (r->job->diags->count) {
            print_diags(r->job->diags, r->err);
            return false;
        }
        r->ptx = r->job->image.ptx;
        r->ptx_bytes = r->job->image.ptx_bytes;
    } else {
        r->ptx = file_read(r->arena, r->o->ptx_path, &r->ptx_bytes);
        if (!r->ptx) {
            diag_add(r->diags, DIAG_RUN_PTX, (struct loc){.file = r->o->ptx_path},
                     strerror(errno));
            return false;
        }
    }
    fp4gen_error e = {0};
    if (manifest_read(&r->image, r->ptx, r->ptx_bytes, &e))
        return run_print_error(r, &e);
    r->expr =
        r->job ? r->job->config->expr : run_expr_read(r->arena, &r->image, r->ptx);
    return true;
}

/* ---- On the device */

static bool open_device(struct run *r)
{
    const char *driver = r->o->driver ? r->o->driver : "auto";
    const fp4gen_driver which = strcmp(driver, "cuda") == 0  ? FP4GEN_DRIVER_CUDA
                                : strcmp(driver, "emu") == 0 ? FP4GEN_DRIVER_EMU
                                                             : FP4GEN_DRIVER_AUTO;
    fp4gen_error e = {0};
    if (fp4gen_open(&r->device, which, r->o->device, r->image.target, &e) ||
        fp4gen_load(&r->kernel, r->device, r->ptx, r->ptx_bytes, &e))
        return run_print_error(r, &e);
    if (r->o->watch)
        r->o->watch->has_device = true;
    if (fp4gen_check(r->kernel, &r->gemm, &e))
        return run_print_error(r, &e);
    fp4gen_device_get_info(r->device, &r->info);
    if (r->info.note[0])
        fprintf(r->err, "no GPU for this kernel: %s\n", r->info.note);
    return true;
}

/* What the arguments of a sensible call would be depends on the product's size: some
 * rows of it are computed. */
static bool choose_globals(struct run *r)
{
    const fp4gen_gemm *g = &r->gemm;
    const uint32_t rows = g->m < 4 ? g->m : 4, cols = g->n < 512 ? g->n : 512;
    if (!r->expr || rows == 0 || cols == 0)
        return true;
    struct ref_dot *dots = malloc((size_t)rows * cols * sizeof *dots);
    float *acc = malloc((size_t)rows * cols * sizeof *acc);
    const struct ref_gemm ref = run_reference(r, 1);
    bool ok = dots && acc && ref_gemm(&ref, 0, rows, 0, cols, dots);
    for (size_t i = 0; ok && i < (size_t)rows * cols; i++)
        acc[i] = (float)dots[i].value;
    const struct epilogue_run run = {.e = r->expr,
                                     .image = &r->image,
                                     .args = r->args,
                                     .m = rows,
                                     .n = cols,
                                     .acc = acc,
                                     .alpha = r->alpha};
    float global = 1;
    int bad = -1;
    if (ok) {
        epilogue_choose_globals(&run, r->args);
        bad = epilogue_bad_global(&run, &global);
    }
    free(dots);
    free(acc);
    if (bad >= 0)
        diag_add(r->diags, DIAG_RUN_SCALE, loc_none(), r->image.outputs[bad].name,
                 isnan(global) ? NAN : (double)global); /* without its sign */
    return ok ? bad < 0 : run_no_memory(r, "the arguments");
}

static bool make_operands(struct run *r)
{
    const struct run_options *o = r->o;
    const fp4gen_gemm *g = &r->gemm;
    if (!run_make_operands(r))
        return false;
    const int before = r->diags->count;
    if (!run_args_make(r->args, &r->image, g->m, g->n, o->seed, o->settings,
                       o->setting_count, r->diags))
        return r->diags->count == before ? run_no_memory(r, "the arguments") : false;
    if (!run_outputs_make(r->outs, &r->image, g->m, g->n, g->ldd, POISON_BYTE))
        return run_no_memory(r, "the outputs");
    return choose_globals(r);
}

static bool upload(struct run *r, uint64_t *address, const void *data, size_t bytes)
{
    fp4gen_error e = {0};
    return (!fp4gen_alloc(r->device, address, bytes, &e) &&
            !fp4gen_upload(r->device, *address, data, bytes, &e)) ||
           run_print_error(r, &e);
}

/* What the epilogue reads and writes, and where the call finds it. */
static bool upload_epilogue(struct run *r)
{
    fp4gen_gemm *g = &r->gemm;
    bool ok = true;
    for (int k = 0; ok && k < r->image.output_count; k++) {
        struct run_output *o = &r->outs[k];
        ok = upload(r, &o->address, o->bytes, o->bytes_count) &&
             (!o->scales || upload(r, &o->scales_address, o->scales, o->scales_count));
        r->gemm_outputs[k] =
            (fp4gen_output){.name = o->about->name,
                            .address = o->address + GUARD_BYTES,
                            .ld = o->about->bits ? o->d.ld_bytes : 0,
                            .scales = o->scales ? o->scales_address + GUARD_BYTES : 0};
    }
    for (int k = 0; ok && k < r->image.arg_count; k++) {
        struct run_arg *arg = &r->args[k];
        if (arg->data)
            ok = upload(r, &arg->address, arg->data, arg->rows * arg->ld_bytes);
        else if (r->o->alpha_on_device)
            ok = upload(r, &arg->address, &arg->bits, sizeof arg->bits);
        r->gemm_args[k] =
            (fp4gen_arg){.name = arg->about->name,
                         .value = run_arg_value(arg),
                         .address = arg->address,
                         .ld = arg->about->kind == ARG_AUX ? arg->ld_bytes : 0};
    }
    g->ldd = 0;
    g->outputs = r->gemm_outputs;
    g->output_count = (uint32_t)r->image.output_count;
    g->args = r->gemm_args;
    g->arg_count = (uint32_t)r->image.arg_count;
    return ok;
}

static bool upload_all(struct run *r)
{
    fp4gen_gemm *g = &r->gemm;
    bool ok = upload(r, &g->a, r->a.codes, r->a.codes_bytes) &&
              upload(r, &g->b, r->b.codes, r->b.codes_bytes) &&
              upload(r, &g->sfa, r->a.scales, r->a.scales_bytes) &&
              upload(r, &g->sfb, r->b.scales, r->b.scales_bytes) && upload_epilogue(r);
    g->alpha = r->alpha;
    if (ok && r->o->alpha_on_device) {
        g->alpha = NAN; /* must not be used */
        ok = upload(r, &g->alpha_ptr, &r->alpha, sizeof r->alpha);
    }
    return ok;
}

struct bar {
    FILE *err;
    double begin_s;
    bool shown;
};

/* Called by the emulator from a thread of its own while a launch runs.  CTAs of a
 * persistent kernel end together; until then the seconds show that it is alive. */
static void draw_bar(void *arg, unsigned long long done, unsigned long long all)
{
    struct bar *bar = arg;
    double seconds = now_s() - bar->begin_s;
    if (seconds < BAR_AFTER_S || all == 0)
        return;
    int filled = (int)(done * BAR_CHARS / all);
    fprintf(bar->err, "\r[%-*.*s] %llu of %llu CTAs, %.0f s", BAR_CHARS, filled,
            "########################################", done, all, seconds);
    fflush(bar->err);
    bar->shown = true;
}

typedef void progress_fn(void *arg, unsigned long long done, unsigned long long all);

/* The emulator's extension fp4emu_set_progress (emu/fp4emu.h), if the driver has it. */
static void set_progress(const struct run *r, progress_fn *fn, void *arg)
{
    void (*set)(progress_fn *, void *) = NULL;
    void *symbol = fp4gen_driver_symbol(r->device, "fp4emu_set_progress");
    memcpy(&set, &symbol, sizeof symbol);
    if (set)
        set(fn, arg);
}

/* Of all that the kernel has written, and of what it must not write. */
static void watch_launch(struct run *r, bool ok)
{
    struct run_watch *w = r->o->watch;
    uint64_t hash = 0;
    for (int k = 0; ok && k < r->image.output_count; k++) {
        const struct run_output *out = &r->outs[k];
        hash = hash * 31 + hash_bytes(out->bytes, out->bytes_count);
        if (out->scales)
            hash = hash * 31 + hash_bytes(out->scales, out->scales_count);
    }
    w->hash = hash;
    w->look(w, r->device);
}

static bool launch(struct run *r)
{
    fp4gen_error e = {0};
    struct bar bar = {.err = r->err};
    const bool progress = isatty(fileno(r->err)) != 0;
    bool ok = true;
    if (r->o->watch)
        r->o->watch->is_launched = true;
    r->gemm.ctas = r->o->ctas;
    for (int i = 0; ok && i < r->o->repeat; i++) {
        float milliseconds = 0;
        double begin_s = bar.begin_s = now_s();
        if (progress)
            set_progress(r, draw_bar, &bar);
        ok = fp4gen_run_timed(r->kernel, &r->gemm, &milliseconds, &e) == FP4GEN_OK;
        if (progress)
            set_progress(r, NULL, NULL);
        double seconds = r->info.emulated ? now_s() - begin_s : milliseconds * 1e-3;
        if (i == 0 || seconds < r->seconds)
            r->seconds = seconds;
    }
    if (bar.shown)
        fprintf(r->err, "\r%*s\r", BAR_CHARS + 40, "");
    for (int k = 0; ok && k < r->image.output_count; k++) {
        struct run_output *out = &r->outs[k];
        ok = !fp4gen_download(r->device, out->bytes, out->address, out->bytes_count,
                              &e) &&
             (!out->scales ||
              !fp4gen_download(r->device, out->scales, out->scales_address,
                               out->scales_count, &e));
    }
    if (r->job)
        run_tell_lines(r->device, &r->job->map, r->err);
    if (r->o->watch)
        watch_launch(r, ok);
    return ok || run_print_error(r, &e);
}

/* ---- What came out */

static void print_launch(const struct run *r)
{
    const fp4gen_gemm *g = &r->gemm;
    const double flops = 2.0 * g->m * g->n * g->k;
    fp4gen_kernel_info info;
    fp4gen_kernel_get_info(r->kernel, &info);
    fprintf(r->out, "%s on %s: ", info.name, r->info.name);
    if (r->info.emulated)
        fprintf(r->out, "%.*f s emulated\n", r->seconds < 1 ? 4 : 2, r->seconds);
    else
        fprintf(r->out, "%.4f ms, %.1f TFLOP/s\n", r->seconds * 1e3,
                r->seconds > 0 ? flops / r->seconds * 1e-12 : 0.0);
}

/* What the kernel writes, in the order of the image; an output's scales follow it. */
static int list_results(const struct run *r, struct run_result *list)
{
    int count = 0;
    for (int k = 0; k < r->image.output_count; k++) {
        const struct run_output *o = &r->outs[k];
        const struct image_output *about = &r->image.outputs[k];
        const size_t bits = o->d.bits;
        const enum npy_type type = bits == 32                           ? NPY_F32
                                   : strcmp(about->format, "bf16") == 0 ? NPY_BF16
                                   : bits == 16                         ? NPY_F16
                                                                        : NPY_U8;
        list[count++] =
            (struct run_result){.name = about->name,
                                .type = type,
                                .data = o->bytes ? o->bytes + GUARD_BYTES : NULL,
                                .rows = o->d.m,
                                .cols = bits == 4 ? o->d.n / 2 : o->d.n,
                                .ld_bytes = o->d.ld_bytes};
        if (!about->scale_block)
            continue;
        size_t shape[2];
        scales_shape("128x4", o->d.m, o->d.n, about->scale_block, shape);
        list[count++] = (struct run_result){
            .name = arena_printf(r->arena, "%s.scales", about->name),
            .type = NPY_U8,
            .data = o->scales ? o->scales + GUARD_BYTES : NULL,
            .rows = shape[0],
            .cols = shape[1],
            .ld_bytes = shape[1]};
    }
    return count;
}

static bool write_results(const struct run *r)
{
    struct run_result list[2 * IMAGE_MAX_OUTPUTS];
    const int count = list_results(r, list);
    return run_files_write(&r->o->outs, list, count, r->diags);
}

/* Names of files are looked at before anything is read. */
static bool check_names(const struct run *r)
{
    static const char *const inputs[] = {"a", "b", "sfa", "sfb", NULL};
    const char *outputs[2 * IMAGE_MAX_OUTPUTS + 1];
    struct run_result list[2 * IMAGE_MAX_OUTPUTS];
    const int count = list_results(r, list);
    for (int i = 0; i < count; i++)
        outputs[i] = list[i].name;
    outputs[count] = NULL;
    const char *kernel = "the kernel";
    bool ok = run_files_known(&r->o->ins, inputs, DIAG_RUN_IN, kernel, r->diags);
    return run_files_known(&r->o->outs, outputs, DIAG_RUN_OUT, kernel, r->diags) && ok;
}

static bool is_stochastic(const char *rounding)
{
    return rounding && strcmp(rounding, "stochastic") == 0;
}

/* Options of the other kernels. */
static bool refuse_unused(struct run *r)
{
    const struct run_options *o = r->o;
    const char *x = "kernels that quantise, or back";
    const bool has_file = run_file(&o->ins, "a") || run_file(&o->ins, "b");
    const struct run_unused unused[] = {
        {"--global", o->global != NULL, x},
        {"--ldx", o->ldx != 0, x},
        {"--ldc", o->ldc != 0, x},
        {"--lds", o->lds != 0, x},
        {"--rounding stochastic", is_stochastic(o->rounding), "kernels that quantise"},
        {"--dtype without --a and --b", o->dtype && !has_file, "files of numbers"},
    };
    return run_refuse_unused(unused, COUNT_OF(unused), "gemm", r->diags);
}

/* The host rounds numbers alone, neither codes nor what is random. */
static bool check_rounding(const struct run *r)
{
    if (!r->o->rounding || r->a_file.data || r->b_file.data)
        return true;
    diag_add(r->diags, DIAG_FIELD_UNUSED, (struct loc){"gen", 0, 0},
             "--rounding without numbers in --a or --b", "gemm");
    return false;
}

/* Values are compared with what the expression gives; without one there is no need to
 * run. */
static bool can_check(const struct run *r)
{
    const bool is_trusted = r->o->watch && r->o->watch->is_trusted;
    if (r->expr || !r->o->check || is_trusted ||
        strcmp(r->image.epilogue, "identity") == 0)
        return true;
    diag_add(r->diags, DIAG_RUN_CHECK_PTX, (struct loc){.file = r->o->ptx_path},
             r->image.epilogue);
    return false;
}

static int run(struct run *r)
{
    if (!read_kernel(r))
        return FAILED;
    if (r->image.op[0])
        return run_quantize(r->o, &r->image, r->ptx, r->ptx_bytes,
                            r->job ? &r->job->map : NULL, r->diags, r->out, r->err);
    if (!check_names(r) || !refuse_unused(r))
        return MISUSED;
    if (!run_read_inputs(r))
        return FAILED;
    if (!check_rounding(r) || !run_choose_sizes(r))
        return MISUSED;
    if (!can_check(r) || !open_device(r))
        return FAILED;
    const fp4gen_gemm *g = &r->gemm;
    const bool empty = g->m == 0 || g->n == 0;
    if (empty)
        fprintf(r->out, "D is %u x %u: nothing to do\n", g->m, g->n);
    if (!make_operands(r))
        return FAILED;
    if (!empty) {
        if (!upload_all(r) || !launch(r))
            return FAILED;
        print_launch(r);
        if (!run_verify(r))
            return FAILED;
        if (r->a_file.data && r->b_file.data &&
            strcmp(r->image.epilogue, "identity") == 0)
            run_print_loss(r);
    }
    return write_results(r) ? DONE : FAILED;
}

static void close_run(struct run *r)
{
    if (r->device) {
        const uint64_t buffers[] = {r->gemm.a, r->gemm.b, r->gemm.sfa, r->gemm.sfb,
                                    r->gemm.alpha_ptr};
        for (size_t i = 0; i < COUNT_OF(buffers); i++)
            fp4gen_free(r->device, buffers[i], NULL);
        for (int k = 0; k < r->image.output_count; k++) {
            fp4gen_free(r->device, r->outs[k].address, NULL);
            fp4gen_free(r->device, r->outs[k].scales_address, NULL);
        }
        for (int k = 0; k < r->image.arg_count; k++)
            fp4gen_free(r->device, r->args[k].address, NULL);
        fp4gen_unload(r->kernel);
        fp4gen_close(r->device);
    }
    operand_free(&r->a);
    operand_free(&r->b);
    npy_free(&r->a_file);
    npy_free(&r->b_file);
    npy_free(&r->sfa_file);
    npy_free(&r->sfb_file);
    run_args_free(r->args, &r->image);
    run_outputs_free(r->outs, &r->image);
    if (r->job)
        job_free(r->job);
    arena_free(r->arena);
}

int verb_run(const struct run_options *o, FILE *out, FILE *err)
{
    struct run r = {.o = o, .out = out, .err = err, .arena = arena_new()};
    r.diags = diags_new(r.arena);
    int status = run(&r);
    if (!flush_result(out, r.diags))
        status = FAILED;
    print_diags(r.diags, err);
    close_run(&r);
    return status;
}
