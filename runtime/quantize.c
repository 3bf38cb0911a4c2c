/* quantize.c - launches the kernels beside the GEMM. */
#include <math.h>
#include <string.h>

#include "runtime/error.h"
#include "runtime/kernel.h"

#define MAX_ROWS 0x7fffff00u
#define MAX_COLS 0x3fffff00u /* twice as many columns are counted in 32 bits */
#define MAX_STRIDE ((uint64_t)1 << 40)
#define ROWS_OF_Z 32768u /* grid: rows of CTAs along y; the same in the template */

static const fp4gen_status bad = FP4GEN_BAD_ARGUMENT;

/* What a kernel works on. */
struct shape {
    bool has_x, has_codes, has_from, is_to_codes;
    uint32_t x_width, x_bytes; /* columns of X for one of codes; of an element */
};

static bool is(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

static struct shape shape_of(const struct image *i)
{
    struct shape s = {.is_to_codes = i->rounding[0] != '\0',
                      .has_from = i->from_layout[0] != '\0'};
    s.has_x = s.has_codes = !s.has_from;
    s.x_width = is(i->x_form, "plain") ? 1 : 2;
    s.x_bytes = is(i->x_type, "f32") ? 4 : 2;
    return s;
}

static uint64_t ceil_div_u64(uint64_t x, uint64_t by)
{
    return x / by + (x % by != 0);
}

uint64_t fp4gen_scale_bytes(const char *layout, uint32_t m, uint32_t k, uint64_t lds)
{
    const uint64_t words = ceil_div_u64(k, 64);
    if (!layout)
        return 0;
    if (is(layout, "128x4"))
        return ceil_div_u64(m, 128) * words * 512;
    if (is(layout, "8x4"))
        return ceil_div_u64(m, 8) * words * 32;
    if (is(layout, "linear") && m && k)
        return (m - 1) * (lds ? lds : ceil_div_u64(k, 16)) + ceil_div_u64(k, 16);
    return 0;
}

static fp4gen_status check_row(const char *name, const char *stride_name,
                               uint64_t row_bytes, uint64_t *stride, fp4gen_error *err)
{
    if (*stride == 0 && row_bytes % 16 != 0)
        return fail(err, bad, ERROR(QUANTIZE_DENSE), name, U64(row_bytes), stride_name,
                    U64(ceil_div_u64(row_bytes, 16) * 16));
    if (*stride == 0)
        *stride = row_bytes;
    if (*stride >= MAX_STRIDE)
        return fail(err, bad, ERROR(QUANTIZE_STRIDE_LONG), stride_name, U64(*stride));
    if (*stride % 16 != 0)
        return fail(err, bad, ERROR(QUANTIZE_STRIDE), stride_name, U64(*stride),
                    U64(ceil_div_u64(*stride, 16) * 16));
    if (*stride < row_bytes)
        return fail(err, bad, ERROR(QUANTIZE_STRIDE_SHORT), stride_name, U64(*stride),
                    U64(row_bytes));
    return FP4GEN_OK;
}

static fp4gen_status check_scales(const char *layout, const char *stride_name,
                                  uint32_t k, uint64_t *stride, fp4gen_error *err)
{
    const uint64_t row_bytes = ceil_div_u64(k, 16);
    if (!is(layout, "linear"))
        return *stride == 0 ? FP4GEN_OK
                            : fail(err, bad, ERROR(QUANTIZE_STRIDE_UNUSED), stride_name,
                                   U64(*stride), layout);
    if (*stride == 0)
        *stride = row_bytes;
    if (*stride < row_bytes)
        return fail(err, bad, ERROR(QUANTIZE_STRIDE_SHORT), stride_name, U64(*stride),
                    U64(row_bytes));
    if (*stride >= MAX_STRIDE)
        return fail(err, bad, ERROR(QUANTIZE_STRIDE_LONG), stride_name, U64(*stride));
    return FP4GEN_OK;
}

static fp4gen_status check_global(const struct shape *s, const fp4gen_quantize_args *q,
                                  fp4gen_error *err)
{
    if (q->global_ptr && q->amax_ptr)
        return fail(err, bad, ERROR(QUANTIZE_GLOBAL_TWICE));
    if (q->amax_is_ready && !q->amax_ptr)
        return fail(err, bad, ERROR(QUANTIZE_AMAX));
    bool by_value = s->has_x && !q->global_ptr && !q->amax_ptr;
    if (by_value && !(q->global > 0 && isfinite(q->global)))
        return fail(err, bad, ERROR(QUANTIZE_GLOBAL),
                    isnan(q->global) ? NAN : (double)q->global);
    return FP4GEN_OK;
}

/* Of the kernel's other half: it would be read by nobody. */
static fp4gen_status check_unused(const char *op, const struct shape *s,
                                  const fp4gen_quantize_args *q, fp4gen_error *err)
{
    const struct {
        const char *name;
        bool is_used, is_given;
    } fields[] = {
        {"x", s->has_x, q->x != 0},
        {"ldx", s->has_x, q->ldx != 0},
        {"codes", s->has_codes, q->codes != 0},
        {"ldc", s->has_codes, q->ldc != 0},
        {"from", s->has_from, q->from != 0},
        {"ldf", s->has_from, q->ldf != 0},
        {"global_ptr", s->has_x, q->global_ptr != 0},
        {"amax_ptr", s->is_to_codes, q->amax_ptr != 0},
        {"global_out", s->is_to_codes, q->global_out != 0},
    };
    for (size_t f = 0; f < COUNT_OF(fields); f++)
        if (fields[f].is_given && !fields[f].is_used)
            return fail(err, bad, ERROR(FIELD_UNUSED), fields[f].name, op);
    return FP4GEN_OK;
}

/* Halves begin at 16 bytes; interleaved groups are whole. */
static uint32_t k_multiple(const struct image *i, const struct shape *s)
{
    if (is(i->x_form, "halves"))
        return 16 / s->x_bytes;
    return is(i->x_form, "interleaved") ? 8 : 1;
}

fp4gen_status fp4gen_quantize_check(const fp4gen_kernel *k, fp4gen_quantize_args *q,
                                    fp4gen_error *err)
{
    if (!k || !q)
        return fail(err, bad, ERROR(NULL_ARGUMENT), "fp4gen_quantize_check");
    fp4gen_status s = kernel_is_for(k, false, "fp4gen_quantize", err);
    if (s)
        return s;
    const struct image *i = &k->image;
    const struct shape shape = shape_of(i);
    s = check_unused(i->op, &shape, q, err);
    if (s)
        return s;
    if (q->m > MAX_ROWS)
        return fail(err, bad, ERROR(QUANTIZE_SIZE), "m", q->m, MAX_ROWS);
    if (q->k > MAX_COLS)
        return fail(err, bad, ERROR(QUANTIZE_SIZE), "k", q->k, MAX_COLS);
    const uint32_t multiple = k_multiple(i, &shape);
    if (q->k % multiple != 0)
        return fail(err, bad, ERROR(QUANTIZE_K), q->k,
                    is(i->x_form, "halves") ? "the second half" : "interleaved groups",
                    multiple, U64(ceil_div_u64(q->k, multiple) * multiple));
    if (shape.has_x)
        s = check_row("x", "ldx", (uint64_t)q->k * shape.x_width * shape.x_bytes,
                      &q->ldx, err);
    if (!s && shape.has_codes)
        s = check_row("codes", "ldc", ceil_div_u64(q->k, 2), &q->ldc, err);
    if (!s)
        s = check_scales(i->layout, "lds", q->k, &q->lds, err);
    if (!s && shape.has_from)
        s = check_scales(i->from_layout, "ldf", q->k, &q->ldf, err);
    return s ? s : check_global(&shape, q, err);
}

static fp4gen_status check_address(const char *name, uint64_t address, uint64_t unit,
                                   fp4gen_error *err)
{
    if (address == 0)
        return fail(err, bad, ERROR(NULL_ADDRESS), name);
    if (address % unit != 0)
        return fail(err, bad, ERROR(GEMM_ADDRESS), name, U64(address), U64(unit));
    return FP4GEN_OK;
}

static fp4gen_status check_addresses(const struct image *i,
                                     const fp4gen_quantize_args *q, fp4gen_error *err)
{
    const struct shape s = shape_of(i);
    const struct {
        bool is_used;
        const char *name;
        uint64_t address, unit;
    } addresses[] = {
        {s.has_x, "x", q->x, 16},
        {s.has_codes, "codes", q->codes, 16},
        {true, "scales", q->scales, is(i->layout, "linear") ? 1 : 16},
        {s.has_from, "from", q->from, is(i->from_layout, "linear") ? 1 : 16},
        {q->global_ptr != 0, "global_ptr", q->global_ptr, 4},
        {q->amax_ptr != 0, "amax_ptr", q->amax_ptr, 4},
        {q->global_out != 0, "global_out", q->global_out, 4},
    };
    fp4gen_status status = FP4GEN_OK;
    for (size_t k = 0; !status && k < sizeof addresses / sizeof *addresses; k++)
        if (addresses[k].is_used)
            status = check_address(addresses[k].name, addresses[k].address,
                                   addresses[k].unit, err);
    return status;
}

union param {
    uint32_t u32;
    float f32;
    uint64_t u64;
};

/* The manifest was read: every name is one of these. */
static union param param_value(const char *name, const fp4gen_quantize_args *q)
{
    const struct {
        const char *name;
        union param value;
    } all[] = {
        {"x", {.u64 = q->x}},
        {"ldx", {.u64 = q->ldx}},
        {"codes", {.u64 = q->codes}},
        {"ldc", {.u64 = q->ldc}},
        {"from", {.u64 = q->from}},
        {"ldf", {.u64 = q->ldf}},
        {"scales", {.u64 = q->scales}},
        {"lds", {.u64 = q->lds}},
        {"m", {.u32 = q->m}},
        {"k", {.u32 = q->k}},
        {"global", {.f32 = q->global}},
        {"global_ptr", {.u64 = q->global_ptr}},
        {"amax_ptr", {.u64 = q->amax_ptr}},
        {"global_out", {.u64 = q->global_out}},
        {"seed", {.u32 = q->seed}},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (is(all[i].name, name))
            return all[i].value;
    return (union param){.u64 = 0};
}

static fp4gen_status launch(const fp4gen_kernel *k, CUfunction function,
                            const fp4gen_quantize_args *q, fp4gen_error *err)
{
    const struct image *image = &k->image;
    union param values[IMAGE_MAX_PARAMS];
    void *params[IMAGE_MAX_PARAMS];
    for (int i = 0; i < image->param_count; i++) {
        values[i] = param_value(image->params[i].name, q);
        params[i] = &values[i];
    }
    /* A CTA with fewer rows than a block of 128 has a slice of it. */
    const uint64_t rows = ceil_div_u64(q->m, 128) * (128 / image->tile[0]);
    const fp4gen_launch l = {.entry = image->kernel,
                             .grid = {(uint32_t)ceil_div_u64(q->k, image->tile[1]),
                                      rows < ROWS_OF_Z ? (uint32_t)rows : ROWS_OF_Z,
                                      (uint32_t)ceil_div_u64(rows, ROWS_OF_Z)},
                             .block = {image->threads, 1, 1},
                             .params = params,
                             .stream = q->stream};
    return module_launch(k->module, function, &l, err);
}

static fp4gen_status find_amax(const fp4gen_kernel *k, const fp4gen_quantize_args *q,
                               fp4gen_error *err)
{
    const fp4gen_device *dev = k->module->dev;
    fp4gen_status status = device_enter(dev, err);
    if (status)
        return status;
    CUresult r = dev->driver.cuMemsetD2D8Async(q->amax_ptr, sizeof(float), 0,
                                               sizeof(float), 1, (CUstream)q->stream);
    device_leave(dev);
    if (r)
        return fail_cuda(&dev->driver, err, FP4GEN_LAUNCH_FAILED, r, "zeroing amax",
                         NULL);
    return launch(k, k->amax, q, err);
}

fp4gen_status fp4gen_quantize(fp4gen_kernel *k, const fp4gen_quantize_args *q,
                              fp4gen_error *err)
{
    if (!k || !q)
        return fail(err, bad, ERROR(NULL_ARGUMENT), "fp4gen_quantize");
    fp4gen_quantize_args full = *q;
    fp4gen_status status = kernel_is_for(k, false, "fp4gen_quantize", err);
    if (status || q->m == 0 || q->k == 0)
        return status;
    status = fp4gen_quantize_check(k, &full, err);
    if (!status)
        status = check_addresses(&k->image, &full, err);
    if (!status && full.amax_ptr && k->amax && !full.amax_is_ready)
        status = find_amax(k, &full, err);
    return status ? status : launch(k, k->function, &full, err);
}

static fp4gen_status run_quantize(fp4gen_kernel *k, const void *args, fp4gen_error *err)
{
    return fp4gen_quantize(k, args, err);
}

fp4gen_status fp4gen_quantize_timed(fp4gen_kernel *k, const fp4gen_quantize_args *q,
                                    float *milliseconds, fp4gen_error *err)
{
    if (!k || !q || !milliseconds)
        return fail(err, bad, ERROR(NULL_ARGUMENT), "fp4gen_quantize_timed");
    return kernel_timed(k, run_quantize, q, q->stream, milliseconds, err);
}
