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

/* Values that quantise to something that is not their neighbour are told. */
static void note_odd_values(const struct run *r, const char *path, const struct npy *x)
{
    uint64_t nans = 0, infinities = 0;
    for (size_t i = 0; i < x->rows * x->cols; i++) {
        nans += isnan(x->data[i]) != 0;
        infinities += isinf(x->data[i]) != 0;
    }
    if (nans)
        fprintf(r->err, "%s: note: %llu NaN, which %s to the largest code, +6\n", path,
                (unsigned long long)nans, nans == 1 ? "quantises" : "quantise");
    if (infinities)
        fprintf(r->err, "%s: note: %llu %s\n", path, (unsigned long long)infinities,
                infinities == 1 ? "infinity, which saturates"
                                : "infinities, which saturate");
}

static bool read_matrices(struct run *r)
{
    const struct run_options *o = r->o;
    const bool bf16 = o->dtype && strcmp(o->dtype, "bf16") == 0;
    bool ok = true;
    if (o->a)
        ok = npy_read(o->a, bf16, &r->a_file, r->diags) && ok;
    if (o->b)
        ok = npy_read(o->b, bf16, &r->b_file, r->diags) && ok;
    if (!ok)
        return false;
    if (o->a && o->b && r->a_file.cols != r->b_file.cols) {
        diag_add(r->diags, DIAG_RUN_SHAPES, (struct loc){.file = o->b}, r->b_file.rows,
                 r->b_file.cols, o->a, r->a_file.rows, r->a_file.cols);
        return false;
    }
    if (o->a)
        note_odd_values(r, o->a, &r->a_file);
    if (o->b)
        note_odd_values(r, o->b, &r->b_file);
    return true;
}

/* A size is given, or comes from a file; both must agree. */
static bool choose_size(struct run *r, const char *name, int64_t given, bool in_file,
                        size_t from_file, const char *path, uint32_t *out)
{
    if (in_file && given >= 0 && (uint64_t)given != from_file) {
        diag_add(r->diags, DIAG_RUN_SIZE_FILE, (struct loc){.file = path}, name,
                 from_file, name, (long long)given);
        return false;
    }
    int64_t size = in_file ? (int64_t)from_file : given;
    if (size < 0) {
        diag_add(r->diags, DIAG_RUN_SIZE, loc_none(), name);
        return false;
    }
    if (size > UINT32_MAX) {
        diag_add(r->diags, DIAG_RUN_SIZE_BIG, loc_none(), name, (long long)size);
        return false;
    }
    *out = (uint32_t)size;
    return true;
}

static uint64_t align16(uint64_t bytes)
{
    return (bytes + 15) / 16 * 16;
}

/* Fills in gemm's sizes and strides.  A matrix with an odd number of columns gets one
 * more, of zeros: two FP4 values share a byte. */
static bool choose_sizes(struct run *r)
{
    const struct run_options *o = r->o;
    fp4gen_gemm *g = &r->gemm;
    const char *k_file = o->a ? o->a : o->b;
    size_t k_cols = o->a ? r->a_file.cols : r->b_file.cols;
    bool ok = choose_size(r, "m", o->m, o->a != NULL, r->a_file.rows, o->a, &g->m);
    ok = choose_size(r, "n", o->n, o->b != NULL, r->b_file.rows, o->b, &g->n) && ok;
    ok = choose_size(r, "k", o->k, k_file != NULL, k_cols, k_file, &g->k) && ok;
    if (!ok)
        return false;
    if (k_file)
        g->k += g->k % 2;
    const struct image_output *d = &r->image.outputs[0];
    g->lda = o->lda ? o->lda : align16(((uint64_t)g->k + 1) / 2);
    g->ldb = o->ldb ? o->ldb : align16(((uint64_t)g->k + 1) / 2);
    g->ldd = o->ldd ? o->ldd
                    : align16(((uint64_t)(g->n >> d->cols_shift) * d->bits + 7) / 8);
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
        fp4gen_load(&r->kernel, r->device, r->ptx, r->ptx_bytes, &e) ||
        fp4gen_check(r->kernel, &r->gemm, &e))
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
    const uint8_t pad = (uint8_t)o->pad_byte;
    const enum fp4_rounding rounding =
        o->rounding && strcmp(o->rounding, "halfstep") == 0 ? FP4_HALFSTEP
                                                            : FP4_NEAREST;
    if (!operand_alloc(&r->a, g->m, g->k, g->lda) ||
        !operand_alloc(&r->b, g->n, g->k, g->ldb))
        return run_no_memory(r, "the operands");
    if (o->a)
        operand_quantize(&r->a, &r->a_file, rounding, pad);
    else
        operand_random(&r->a, o->seed, 0, pad);
    if (o->b)
        operand_quantize(&r->b, &r->b_file, rounding, pad);
    else
        operand_random(&r->b, o->seed, 1, pad);
    r->alpha = (float)((double)o->alpha * r->a.global * r->b.global);

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

static bool write_result(struct run *r)
{
    const struct run_output *o = &r->outs[0];
    const size_t bits = o->d.bits;
    const enum npy_type type = bits == 32                              ? NPY_F32
                               : strcmp(o->about->format, "bf16") == 0 ? NPY_BF16
                               : bits == 16                            ? NPY_F16
                                                                       : NPY_U8;
    return npy_write(r->o->d, type, o->bytes + GUARD_BYTES, o->d.m,
                     bits == 4 ? o->d.n / 2 : o->d.n, o->d.ld_bytes, r->diags);
}

static bool is_stochastic(const char *rounding)
{
    return rounding && strcmp(rounding, "stochastic") == 0;
}

/* Options of the other kernels. */
static bool refuse_unused(struct run *r)
{
    const struct run_options *o = r->o;
    const struct {
        const char *name;
        bool is_given;
    } unused[] = {
        {"--x", o->x != NULL},
        {"--global", o->global != NULL},
        {"--ldx", o->ldx != 0},
        {"--ldc", o->ldc != 0},
        {"--lds", o->lds != 0},
        {"--rounding stochastic", is_stochastic(o->rounding)},
        {"--rounding without --a and --b", o->rounding && !o->a && !o->b},
    };
    bool ok = true;
    for (size_t i = 0; i < COUNT_OF(unused); i++)
        if (unused[i].is_given) {
            diag_add(r->diags, DIAG_FIELD_UNUSED, (struct loc){"gen", 0, 0},
                     unused[i].name, "gemm");
            ok = false;
        }
    return ok;
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
    if (!read_matrices(r))
        return FAILED;
    /* Sizes need D's type for its stride, and so the kernel; but what is missing on
     * the command line is a misuse, and comes first. */
    if (!read_kernel(r))
        return FAILED;
    if (r->image.op[0])
        return run_quantize(r->o, &r->image, r->ptx, r->ptx_bytes,
                            r->job ? &r->job->map : NULL, r->diags, r->out, r->err);
    if (!refuse_unused(r) || !choose_sizes(r))
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
        if (r->o->a && r->o->b && strcmp(r->image.epilogue, "identity") == 0)
            run_print_loss(r);
    }
    return !r->o->d || write_result(r) ? DONE : FAILED;
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
