#include "gen/run_quantize.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/fp4.h"
#include "gen/npy.h"
#include "gen/quantize_data.h"
#include "gen/run_lines.h"
#include "runtime/fp4gen.h"

enum { DONE = 0, FAILED = 1, MISUSED = 2 };

struct qrun {
    const struct run_options *o;
    const struct image *image;
    const struct line_map *map; /* NULL: a PTX file */
    FILE *out, *err;
    struct diags *diags;
    struct npy x_file;
    struct quantize_data data;
    fp4gen_device *device;
    fp4gen_device_info info;
    fp4gen_kernel *kernel;
    fp4gen_quantize_args args;
    bool by_amax;        /* the global scale comes from a first pass */
    uint64_t buffers[5]; /* x codes scales from, and globals, with their guards */
    double seconds;      /* of the fastest launch */
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
    const bool to_codes = r->image->rounding[0] != '\0';
    const struct {
        const char *name;
        bool is_given;
    } unused[] = {
        {"-n", o->n >= 0},
        {"--a", o->a != NULL},
        {"--b", o->b != NULL},
        {"--lda", o->lda != 0},
        {"--ldb", o->ldb != 0},
        {"--ldd", o->ldd != 0},
        {"--alpha", o->alpha != 1},
        {"--alpha-ptr", o->alpha_on_device},
        {"--ctas", o->ctas != 0},
        {"--out", o->d != NULL},
        {"--x", o->x && !to_codes},
        {"--global", o->global && !r->image->x_type[0]},
        {"--arg", o->setting_count != 0},
    };
    bool ok = true;
    for (size_t i = 0; i < COUNT_OF(unused); i++)
        if (unused[i].is_given) {
            diag_add(r->diags, DIAG_FIELD_UNUSED, (struct loc){"gen", 0, 0},
                     unused[i].name, r->image->op);
            ok = false;
        }
    return ok;
}

static bool choose_size(struct qrun *r, const char *name, int64_t given, size_t in_file,
                        uint32_t *out)
{
    if (r->o->x && given >= 0 && (uint64_t)given != in_file) {
        diag_add(r->diags, DIAG_RUN_SIZE_FILE, (struct loc){r->o->x, 0, 0}, name,
                 in_file, name, (long long)given);
        return false;
    }
    int64_t size = r->o->x ? (int64_t)in_file : given;
    if (size < 0)
        diag_add(r->diags, DIAG_RUN_SIZE_X, loc_none(), name);
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
    bool ok = choose_size(r, "m", o->m, r->x_file.rows, &q->m);
    ok = choose_size(r, "k", o->k, r->x_file.cols / width, &q->k) && ok;
    const uint64_t elem = is(r->image->x_type, "f32") ? 4 : 2;
    if (r->image->x_type[0]) {
        q->ldx = o->ldx ? o->ldx : align16((uint64_t)q->k * width * elem);
        q->ldc = o->ldc ? o->ldc : align16(((uint64_t)q->k + 1) / 2);
    }
    q->lds = o->lds;
    return ok;
}

/* ---- data */

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
    for (size_t row = 0; o->x && row < r->x_file.rows; row++)
        for (size_t col = 0; col < r->x_file.cols; col++)
            quantize_set_x(q, row, col, r->x_file.data[row * r->x_file.cols + col]);
    q->global = 1;
    if (o->global && !r->by_amax)
        q->global = strtof(o->global, NULL);
    else if (r->image->rounding[0])
        q->global = nvfp4_global_scale(quantize_amax(q));
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
        fp4gen_load(&r->kernel, r->device, ptx, bytes, &e) ||
        fp4gen_quantize_check(r->kernel, &r->args, &e))
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
    fp4gen_error e = {0};
    float got = 0, want = r->data.global;
    if (!r->args.global_out)
        return true;
    if (fp4gen_download(r->device, &got, r->args.global_out, sizeof got, &e))
        return print_error(r, &e);
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
    const bool bf16 = o->dtype && is(o->dtype, "bf16");
    r->by_amax = o->global && is(o->global, "amax");
    if (!refuse_unused(r))
        return MISUSED;
    if (o->x && !npy_read(o->x, bf16, &r->x_file, r->diags))
        return FAILED;
    if (!choose_sizes(r))
        return MISUSED;
    if (!open_device(r, ptx, bytes) || !make_data(r))
        return FAILED;
    if (r->args.m == 0 || r->args.k == 0) {
        fprintf(r->out, "%u x %u: nothing to do\n", r->args.m, r->args.k);
        return DONE;
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
    return !o->check || (o->watch && o->watch->is_trusted) || check(r) ? DONE : FAILED;
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
    return status;
}
