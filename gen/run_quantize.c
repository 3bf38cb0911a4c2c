#include "gen/run_quantize.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/fp4.h"
#include "gen/npy.h"
#include "gen/quantize_data.h"
#include "gen/run_data.h"
#include "gen/run_lines.h"
#include "gen/run_unused.h"
#include "runtime/fp4gen.h"

enum { DONE = 0, FAILED = 1, MISUSED = 2 };

struct qrun {
    const struct run_options *o;
    const struct image *image;
    const struct line_map *map; /* NULL: a PTX file */
    FILE *out, *err;
    struct diags *diags;
    struct npy x_file, codes_file, scales_file, from_file;
    struct quantize_data data;
    fp4gen_device *device;
    fp4gen_device_info info;
    fp4gen_kernel *kernel;
    fp4gen_quantize_args args;
    bool by_amax;        /* the global scale comes from a first pass */
    uint64_t buffers[5]; /* x codes scales from, and globals, with their guards */
    double seconds;      /* of the fastest launch */
    float global;        /* that the kernel has used */
};

static bool print_error(const struct qrun *r, const fp4gen_error *e)
{
    size_t first = strcspn(e->text, "\n");
    fprintf(r->err, "error: %.*s [%s]\n", (int)first, e->text, e->code);
    if (e->text[first])
        fprintf(r->err, "%s\n", e->text + first + 1);
    return false;
}

static bool is(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- what is asked for */

static bool refuse_unused(struct qrun *r)
{
    const struct run_options *o = r->o;
    const bool has_x = r->image->x_type[0] != '\0', rounds = r->image->rounding[0];
    const struct run_unused unused[] = {
        {"-n", o->n >= 0, "a GEMM; here sizes are -m and -k"},
        {"--lda", o->lda != 0, "a GEMM"},
        {"--ldb", o->ldb != 0, "a GEMM"},
        {"--ldd", o->ldd != 0, "a GEMM"},
        {"--ldx", o->ldx != 0 && !has_x, "kernels that read or write X"},
        {"--ldc", o->ldc != 0 && !has_x, "kernels that read or write codes"},
        {"--pad-byte", o->pad_byte != run_defaults().pad_byte, "a GEMM"},
        {"--alpha", o->alpha != 1, "a GEMM"},
        {"--alpha-ptr", o->alpha_on_device, "a GEMM"},
        {"--ctas", o->ctas != 0, "a GEMM"},
        {"--global", o->global && !has_x, "kernels that read or write X"},
        {"--global amax", r->by_amax && has_x && !rounds,
         "kernels that read X; here it is a number"},
        {"--dtype", o->dtype && !run_file(&o->ins, "x"), "--in x=FILE"},
        {"--arg", o->setting_count != 0, "a GEMM with an epilogue"},
    };
    bool ok = true;
    if (o->rounding && o->ptx_path) { /* it is the kernel's; no host rounds here */
        diag_add(r->diags, DIAG_CLI_PTX_OPTION, (struct loc){"gen", 0, 0}, o->ptx_path);
        diag_note(r->diags, loc_none(), "its rounding is %s",
                  r->image->rounding[0] ? r->image->rounding : "none");
        ok = false;
    }
    return run_refuse_unused(unused, COUNT_OF(unused), r->image->op, r->diags) && ok;
}

/* Names of files, NULL at the end; outputs are those of list_results(). */
struct names {
    const char *in[3], *out[4];
};

static const struct names *names_of(const struct qrun *r)
{
    static const struct names quantize = {{"x"}, {"codes", "scales", "global"}},
                              back = {{"codes", "scales"}, {"x"}},
                              convert = {{"from"}, {"scales"}};
    return r->image->rounding[0] ? &quantize : r->image->x_type[0] ? &back : &convert;
}

static bool check_names(const struct qrun *r)
{
    const struct names *n = names_of(r);
    const char *op = r->image->op;
    bool ok = run_files_known(&r->o->ins, n->in, DIAG_RUN_IN, op, r->diags);
    return run_files_known(&r->o->outs, n->out, DIAG_RUN_OUT, op, r->diags) && ok;
}

/* ---- files */

static bool read_bytes(struct qrun *r, const char *name, struct npy *out)
{
    const char *path = run_file(&r->o->ins, name);
    return !path || npy_read_u8(path, out, r->diags);
}

static bool read_files(struct qrun *r)
{
    const char *x = run_file(&r->o->ins, "x");
    const bool bf16 = r->o->dtype && is(r->o->dtype, "bf16");
    bool ok = !x || npy_read(x, bf16, &r->x_file, r->diags);
    if (ok && x)
        run_note_odd(x, &r->x_file, is(r->image->op, "silu_mul_quantize_nvfp4"),
                     r->err);
    ok = read_bytes(r, "codes", &r->codes_file) && ok;
    ok = read_bytes(r, "scales", &r->scales_file) && ok;
    return read_bytes(r, "from", &r->from_file) && ok;
}

static bool write_files(const struct qrun *r)
{
    const struct quantize_data *q = &r->data;
    size_t shape[2];
    scales_shape(r->image->layout, q->m, q->k, 16, shape);
    const bool is_linear = is(r->image->layout, "linear");
    const enum npy_type x_type = is(r->image->x_type, "f32")    ? NPY_F32
                                 : is(r->image->x_type, "bf16") ? NPY_BF16
                                                                : NPY_F16;
    const struct run_result codes = {"codes", NPY_U8,         q->codes,
                                     q->m,    (q->k + 1) / 2, q->ldc},
                            scales = {"scales",  NPY_U8,
                                      q->scales, shape[0],
                                      shape[1],  is_linear ? q->lds : shape[1]},
                            global = {"global", NPY_F32, &r->global,
                                      1,        1,       sizeof r->global},
                            x = {"x", x_type, q->x, q->m, q->k, q->ldx};
    const struct run_result quantize[] = {codes, scales, global};
    if (r->image->rounding[0])
        return run_files_write(&r->o->outs, quantize, 3, r->diags);
    return run_files_write(&r->o->outs, r->image->x_type[0] ? &x : &scales, 1,
                           r->diags);
}

/* ---- sizes */

/* The file that a size comes from: X, codes, or scales, which know it up to padding. */
static const char *file_of_sizes(const struct qrun *r, bool *is_padded)
{
    const char *x = run_file(&r->o->ins, "x"), *codes = run_file(&r->o->ins, "codes"),
               *scales = run_file(&r->o->ins, "scales");
    *is_padded = !x && !codes;
    return x ? x : codes ? codes : scales ? scales : run_file(&r->o->ins, "from");
}

/* A file says that a size is `most`, or up to `slack` less. */
static bool choose_size(struct qrun *r, const char *name, int64_t given, size_t most,
                        size_t slack, uint32_t *out)
{
    bool is_padded;
    const char *path = file_of_sizes(r, &is_padded);
    if (path && given >= 0 && !is_padded &&
        ((uint64_t)given > most || (uint64_t)given + slack < most)) {
        diag_add(r->diags, DIAG_RUN_SIZE_FILE, (struct loc){path, 0, 0}, name, most,
                 name, (long long)given);
        return false;
    }
    int64_t size = given >= 0 ? given : path ? (int64_t)most : -1;
    if (size < 0)
        diag_add(r->diags, DIAG_RUN_SIZE_X, loc_none(), name, names_of(r)->in[0]);
    else if (size > UINT32_MAX)
        diag_add(r->diags, DIAG_RUN_SIZE_BIG, loc_none(), name, (long long)size);
    else
        *out = (uint32_t)size;
    return size >= 0 && size <= UINT32_MAX;
}

static uint64_t align16(uint64_t bytes)
{
    return (bytes + 15) / 16 * 16;
}

static bool choose_sizes(struct qrun *r)
{
    const struct run_options *o = r->o;
    fp4gen_quantize_args *q = &r->args;
    const uint32_t width = is(r->image->x_form, "plain") ? 1 : 2;
    const uint64_t elem = is(r->image->x_type, "f32") ? 4 : 2;
    /* Groups of 8 in turn, or halves that start at 16 bytes. */
    const unsigned unit = is(r->image->x_form, "plain")         ? 1
                          : is(r->image->x_form, "interleaved") ? 16
                                                                : 32 / (unsigned)elem;
    const struct npy *scales = r->from_file.bytes ? &r->from_file : &r->scales_file;
    const struct npy *rows = r->x_file.data        ? &r->x_file
                             : r->codes_file.bytes ? &r->codes_file
                                                   : scales;
    const size_t k = r->x_file.data        ? r->x_file.cols / width
                     : r->codes_file.bytes ? 2 * r->codes_file.cols
                                           : 16 * scales->cols;
    const size_t slack = r->codes_file.bytes && k ? 1 : 0; /* an odd k */
    if (r->x_file.data && r->x_file.cols % unit) {
        diag_add(r->diags, DIAG_RUN_X_COLS, (struct loc){run_file(&o->ins, "x"), 0, 0},
                 r->x_file.rows, r->x_file.cols, r->image->op, r->image->x_form, unit);
        return false;
    }
    bool ok = choose_size(r, "m", o->m, rows->rows, 0, &q->m);
    ok = choose_size(r, "k", o->k, k, slack, &q->k) && ok;
    if (r->scales_file.bytes)
        ok = ok && run_scales_fit(run_file(&o->ins, "scales"), scales, r->image->layout,
                                  q->m, q->k, r->diags);
    if (r->from_file.bytes)
        ok = ok && run_scales_fit(run_file(&o->ins, "from"), scales,
                                  r->image->from_layout, q->m, q->k, r->diags);
    if (r->image->x_type[0]) {
        q->ldx = o->ldx ? o->ldx : align16((uint64_t)q->k * width * elem);
        q->ldc = o->ldc ? o->ldc : align16(((uint64_t)q->k + 1) / 2);
    }
    q->lds = o->lds;
    return ok;
}

/* ---- data */

static void take_codes(struct qrun *r)
{
    const struct npy *x = &r->codes_file;
    for (size_t row = 0; x->bytes && row < x->rows; row++)
        memcpy(r->data.codes + row * r->data.ldc, x->bytes + row * x->cols, x->cols);
}

static void take_scales(const struct npy *x, const char *layout, uint8_t *to, size_t ld)
{
    const size_t stride = is(layout, "linear") ? ld : x->cols;
    for (size_t row = 0; x->bytes && row < x->rows; row++)
        memcpy(to + row * stride, x->bytes + row * x->cols, x->cols);
}

static bool make_data(struct qrun *r)
{
    const struct run_options *o = r->o;
    struct quantize_data *q = &r->data;
    const fp4gen_quantize_args *a = &r->args;
    *q = (struct quantize_data){.image = r->image,
                                .m = a->m,
                                .k = a->k,
                                .ldx = (size_t)a->ldx,
                                .ldc = (size_t)a->ldc,
                                .lds = (size_t)a->lds,
                                .ldf = (size_t)a->ldf,
                                .seed = (uint32_t)o->seed};
    if (!quantize_data_make(q, o->seed)) {
        diag_add(r->diags, DIAG_RUN_MEMORY, loc_none(), "the matrices", (long long)a->m,
                 0LL, (long long)a->k);
        return false;
    }
    take_codes(r);
    take_scales(&r->scales_file, r->image->layout, q->scales, q->lds);
    take_scales(&r->from_file, r->image->from_layout, q->from, q->ldf);
    for (size_t row = 0; r->x_file.data && row < r->x_file.rows; row++)
        for (size_t col = 0; col < r->x_file.cols; col++)
            quantize_set_x(q, row, col, r->x_file.data[row * r->x_file.cols + col]);
    q->global = 1;
    if (o->global && !r->by_amax)
        q->global = strtof(o->global, NULL);
    else if (r->image->rounding[0])
        q->global = nvfp4_global_scale(quantize_amax(q));
    r->global = q->global;
    return true;
}

static bool open_device(struct qrun *r, const char *ptx, size_t bytes)
{
    const char *driver = r->o->driver ? r->o->driver : "auto";
    const fp4gen_driver which = is(driver, "cuda")  ? FP4GEN_DRIVER_CUDA
                                : is(driver, "emu") ? FP4GEN_DRIVER_EMU
                                                    : FP4GEN_DRIVER_AUTO;
    fp4gen_error e = {0};
    r->args.global = 1;
    if (fp4gen_open(&r->device, which, r->o->device, r->image->target, &e) ||
        fp4gen_load(&r->kernel, r->device, ptx, bytes, &e))
        return print_error(r, &e);
    if (r->o->watch)
        r->o->watch->has_device = true;
    if (fp4gen_quantize_check(r->kernel, &r->args, &e))
        return print_error(r, &e);
    fp4gen_device_get_info(r->device, &r->info);
    if (r->info.note[0])
        fprintf(r->err, "no GPU for this kernel: %s\n", r->info.note);
    return true;
}

/* With its guards, of which the address does not count the first. */
static bool upload(struct qrun *r, int slot, const uint8_t *array, size_t bytes,
                   uint64_t *address)
{
    fp4gen_error e = {0};
    if (!array)
        return true;
    size_t all = bytes + 2 * QUANTIZE_GUARD_BYTES;
    if (fp4gen_alloc(r->device, &r->buffers[slot], all, &e) ||
        fp4gen_upload(r->device, r->buffers[slot], array - QUANTIZE_GUARD_BYTES, all,
                      &e))
        return print_error(r, &e);
    *address = r->buffers[slot] + QUANTIZE_GUARD_BYTES;
    return true;
}

static bool download(struct qrun *r, int slot, uint8_t *array, size_t bytes)
{
    fp4gen_error e = {0};
    if (!array)
        return true;
    return !fp4gen_download(r->device, array - QUANTIZE_GUARD_BYTES, r->buffers[slot],
                            bytes + 2 * QUANTIZE_GUARD_BYTES, &e) ||
           print_error(r, &e);
}

static bool upload_all(struct qrun *r)
{
    struct quantize_data *q = &r->data;
    fp4gen_quantize_args *a = &r->args;
    fp4gen_error e = {0};
    a->global = q->global;
    a->seed = (uint32_t)r->o->seed;
    bool ok = upload(r, 0, q->x, q->x_bytes, &a->x) &&
              upload(r, 1, q->codes, q->codes_bytes, &a->codes) &&
              upload(r, 2, q->scales, q->scales_bytes, &a->scales) &&
              upload(r, 3, q->from, q->from_bytes, &a->from);
    if (ok && r->image->rounding[0]) {
        ok = !fp4gen_alloc(r->device, &r->buffers[4], 32, &e) || print_error(r, &e);
        a->global_out = r->buffers[4];
        if (r->by_amax)
            a->amax_ptr = r->buffers[4] + 16;
    }
    return ok;
}

/* ---- running */

static bool launch(struct qrun *r)
{
    fp4gen_error e = {0};
    if (r->o->watch)
        r->o->watch->is_launched = true;
    for (int i = 0; i < r->o->repeat; i++) {
        float milliseconds = 0;
        double begin_s = now_s();
        if (fp4gen_quantize_timed(r->kernel, &r->args, &milliseconds, &e))
            return print_error(r, &e);
        double seconds = r->info.emulated ? now_s() - begin_s : milliseconds * 1e-3;
        if (i == 0 || seconds < r->seconds)
            r->seconds = seconds;
    }
    struct quantize_data *q = &r->data;
    if (r->args.global_out && fp4gen_download(r->device, &r->global, r->args.global_out,
                                              sizeof r->global, &e))
        return print_error(r, &e);
    return download(r, 0, q->x, q->x_bytes) &&
           download(r, 1, q->codes, q->codes_bytes) &&
           download(r, 2, q->scales, q->scales_bytes);
}

static void watch_launch(struct qrun *r, bool ok)
{
    const struct quantize_data *q = &r->data;
    struct run_watch *w = r->o->watch;
    w->hash = 0;
    if (ok) {
        w->hash = hash_bytes(q->x, q->x_bytes);
        w->hash = w->hash * 31 + hash_bytes(q->codes, q->codes_bytes);
        w->hash = w->hash * 31 + hash_bytes(q->scales, q->scales_bytes);
    }
    w->look(w, r->device);
}

/* What came of the first pass: exact but for silu. */
static bool check_global(struct qrun *r)
{
    const float got = r->global, want = r->data.global;
    if (!r->args.global_out)
        return true;
    bool near = is(r->image->op, "silu_mul_quantize_nvfp4") && r->by_amax;
    bool ok = near ? fabsf(got - want) <= 0x1p-16f * want : got == want;
    if (!ok)
        diag_add(r->diags, DIAG_RUN_GLOBAL, loc_none(), (double)got, (double)want);
    r->data.global = got;
    return ok;
}

static void print_launch(const struct qrun *r)
{
    const struct quantize_data *q = &r->data;
    const double row_bytes = (double)q->k * 0.5625;
    const double x_row_bytes = (double)q->k * (is(r->image->x_form, "plain") ? 1 : 2) *
                               (is(r->image->x_type, "f32") ? 4 : 2);
    double bytes = (double)q->m *
                   (r->image->x_type[0] ? row_bytes + x_row_bytes : (double)q->k / 8);
    fprintf(r->out, "%s on %s: ", r->image->kernel, r->info.name);
    if (r->info.emulated)
        fprintf(r->out, "%.*f s emulated\n", r->seconds < 1 ? 4 : 2, r->seconds);
    else
        fprintf(r->out, "%.4f ms, %.0f GB/s\n", r->seconds * 1e3,
                r->seconds > 0 ? bytes / r->seconds * 1e-9 : 0.0);
}

static int thread_count(void)
{
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : count > 64 ? 64 : (int)count;
}

static bool check(struct qrun *r)
{
    if (!check_global(r))
        return false;
    struct quantize_verdict v = quantize_compare(&r->data, thread_count());
    fprintf(r->out, "%u x %u: %llu values, %llu blocks compared, %llu wrong\n",
            r->args.m, r->args.k, (unsigned long long)v.values,
            (unsigned long long)v.blocks, (unsigned long long)v.wrong);
    if (v.wrong)
        diag_add(r->diags, DIAG_RUN_QUANTIZE, loc_none(), (unsigned long long)v.wrong,
                 v.what, v.row, v.col, v.got, v.want);
    if (v.strayed)
        diag_add(r->diags, DIAG_RUN_QUANTIZE_STRAYED, loc_none(),
                 (unsigned long long)v.strayed, v.strayed_in, (long long)v.stray_at);
    return !v.wrong && !v.strayed;
}

static int run(struct qrun *r, const char *ptx, size_t bytes)
{
    const struct run_options *o = r->o;
    r->by_amax = o->global && is(o->global, "amax");
    if (!check_names(r) || !refuse_unused(r))
        return MISUSED;
    if (!read_files(r))
        return FAILED;
    if (!choose_sizes(r))
        return MISUSED;
    if (!open_device(r, ptx, bytes) || !make_data(r))
        return FAILED;
    if (r->args.m == 0 || r->args.k == 0) {
        fprintf(r->out, "%u x %u: nothing to do\n", r->args.m, r->args.k);
        return write_files(r) ? DONE : FAILED;
    }
    if (!upload_all(r))
        return FAILED;
    bool ok = launch(r);
    if (r->map)
        run_tell_lines(r->device, r->map, r->err);
    if (o->watch)
        watch_launch(r, ok);
    if (!ok)
        return FAILED;
    print_launch(r);
    if (o->check && !(o->watch && o->watch->is_trusted) && !check(r))
        return FAILED;
    return write_files(r) ? DONE : FAILED;
}

int run_quantize(const struct run_options *o, const struct image *image,
                 const char *ptx, size_t ptx_bytes, const struct line_map *map,
                 struct diags *d, FILE *out, FILE *err)
{
    struct qrun r = {
        .o = o, .image = image, .map = map, .diags = d, .out = out, .err = err};
    int status = run(&r, ptx, ptx_bytes);
    if (r.device) {
        for (size_t i = 0; i < COUNT_OF(r.buffers); i++)
            fp4gen_free(r.device, r.buffers[i], NULL);
        fp4gen_unload(r.kernel);
        fp4gen_close(r.device);
    }
    quantize_data_free(&r.data);
    npy_free(&r.x_file);
    npy_free(&r.codes_file);
    npy_free(&r.scales_file);
    npy_free(&r.from_file);
    return status;
}
