#include "gen/run_files.h"

#include <math.h>
#include <string.h>

#include "core/base.h"
#include "gen/run_data.h"

const char *run_file(const struct run_files *f, const char *name)
{
    for (int i = 0; i < f->count; i++)
        if (f->list[i].name && strcmp(f->list[i].name, name) == 0)
            return f->list[i].path;
    return NULL;
}

static bool is_known(const char *name, const char *const *names)
{
    for (; *names; names++)
        if (!name || strcmp(*names, name) == 0)
            return true;
    return false;
}

bool run_files_known(const struct run_files *f, const char *const *names,
                     enum diag_code code, const char *kernel, struct diags *d)
{
    const struct loc here = {"gen", 0, 0};
    struct buf known;
    int count = 0;
    bool ok = true;
    buf_init(&known, d->arena);
    for (; names[count]; count++)
        buf_printf(&known, "%s%s", count ? ", " : "", names[count]);
    for (int i = 0; i < f->count; i++) {
        const char *name = f->list[i].name;
        if (is_known(name, names))
            continue;
        diag_add(d, code, here, kernel, name, known.data);
        ok = false;
    }
    return ok;
}

bool run_files_write(const struct run_files *f, const struct run_result *results,
                     int count, struct diags *d)
{
    bool ok = true;
    for (int i = 0; ok && i < f->count; i++) {
        const struct run_result *r = results;
        while (f->list[i].name && r < results + count &&
               strcmp(r->name, f->list[i].name) != 0)
            r++;
        ok = npy_write(f->list[i].path, r->type, r->data, r->rows, r->cols, r->ld_bytes,
                       d);
    }
    return ok;
}

void run_note_odd(const char *path, const struct npy *x, bool is_silu, FILE *err)
{
    uint64_t nans = 0, infinities = 0;
    for (size_t i = 0; i < x->rows * x->cols; i++) {
        nans += isnan(x->data[i]) != 0;
        infinities += isinf(x->data[i]) != 0;
    }
    if (nans)
        fprintf(err, "%s: note: %llu NaN, which %s to the largest code, +6\n", path,
                (unsigned long long)nans, nans == 1 ? "quantises" : "quantise");
    if (infinities)
        fprintf(err, "%s: note: %llu %s%s\n", path, (unsigned long long)infinities,
                infinities == 1 ? "infinity, which saturates"
                                : "infinities, which saturate",
                is_silu ? ", or whose product is NaN" : "");
}

bool run_scales_fit(const char *path, const struct npy *scales, const char *layout,
                    size_t rows, size_t cols, struct diags *d)
{
    size_t shape[2];
    scales_shape(layout, rows, cols, 16, shape);
    if (scales->rows == shape[0] && scales->cols == shape[1])
        return true;
    diag_add(d, DIAG_RUN_SCALES, (struct loc){path, 0, 0}, scales->rows, scales->cols,
             layout, rows, cols, shape[0], shape[1]);
    return false;
}
