#include "emu/work.h"

#include <stdlib.h>
#include <string.h>

#include "emu/memory.h"

#define MOST_BYTES (UINT64_C(1) << 47) /* of an address space */

static bool fits(uint64_t count, uint64_t bytes)
{
    return bytes == 0 || count <= MOST_BYTES / bytes;
}

/* Bytes from the first to the last byte of a box; UINT64_MAX: more than there can be.
 */
static uint64_t span_bytes(const struct place *p, const struct copy *c)
{
    if (c->width_bytes > MOST_BYTES || !fits(c->rows, p->pitch_bytes) ||
        !fits(p->slice_rows, p->pitch_bytes))
        return UINT64_MAX;
    uint64_t slice_bytes = p->pitch_bytes * p->slice_rows;
    if (!fits(c->slices, slice_bytes))
        return UINT64_MAX;
    return (c->slices - 1) * slice_bytes + (c->rows - 1) * p->pitch_bytes +
           c->width_bytes;
}

static bool place_is_good(const struct place *p, const struct copy *c)
{
    uint64_t bytes = span_bytes(p, c);
    const struct allocation *m = memory_find(p->address);

    if ((c->rows > 1 && p->pitch_bytes < c->width_bytes) ||
        (c->slices > 1 && p->slice_rows < c->rows) || bytes == UINT64_MAX)
        return false;
    if (p->kind == PLACE_HOST &&
        (!m || m->kind == MEMORY_REGISTERED)) /* may be registered in part only */
        return p->address != 0 && !memory_is_device_address(p->address);
    if (p->kind == PLACE_HOST && m->kind == MEMORY_DEVICE)
        return false; /* from and to are mixed up */
    if (m)
        return m->kind != MEMORY_PARAM && memory_contains(p->address, bytes);
    return p->kind == PLACE_UNIFIED && p->address != 0 &&
           !memory_is_device_address(p->address);
}

static CUresult copy_check(const struct copy *c)
{
    if (!c->width_bytes || !c->rows || !c->slices)
        return CUDA_SUCCESS;
    return place_is_good(&c->from, c) && place_is_good(&c->to, c)
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

static void copy_run(const struct copy *c)
{
    if (!c->width_bytes)
        return;
    for (uint64_t z = 0; z < c->slices; z++) {
        for (uint64_t y = 0; y < c->rows; y++) {
            uint64_t from =
                c->from.address + (z * c->from.slice_rows + y) * c->from.pitch_bytes;
            uint64_t to =
                c->to.address + (z * c->to.slice_rows + y) * c->to.pitch_bytes;
            memmove((void *)(uintptr_t)to, (const void *)(uintptr_t)from,
                    (size_t)c->width_bytes);
        }
    }
}

static CUresult fill_check(const struct fill *f)
{
    uint64_t element = (uint64_t)f->element_bytes;
    if (f->address % element || (f->rows > 1 && f->pitch_bytes % element))
        return CUDA_ERROR_INVALID_VALUE;
    if (!f->width_elems || !f->rows)
        return CUDA_SUCCESS;
    if (!fits(f->width_elems, element) || !fits(f->rows, f->pitch_bytes) ||
        (f->rows > 1 && f->pitch_bytes < f->width_elems * element))
        return CUDA_ERROR_INVALID_VALUE;
    const struct allocation *m = memory_find(f->address);
    uint64_t bytes = (f->rows - 1) * f->pitch_bytes + f->width_elems * element;
    return m && m->kind != MEMORY_PARAM && memory_contains(f->address, bytes)
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

static void fill_run(const struct fill *f)
{
    size_t element = (size_t)f->element_bytes;
    for (uint64_t y = 0; y < f->rows; y++) {
        uint8_t *p = (uint8_t *)(uintptr_t)(f->address + y * f->pitch_bytes);
        if (element == 1) {
            memset(p, (int)(f->value & 0xff), (size_t)f->width_elems);
            continue;
        }
        /* Both machines that this is built for are little-endian, as the device is. */
        for (uint64_t x = 0; x < f->width_elems; x++)
            memcpy(p + x * element, &f->value, element);
    }
}

CUresult work_check(const struct work *w)
{
    switch (w->kind) {
    case WORK_COPY:
        return copy_check(&w->u.copy);
    case WORK_FILL:
        return fill_check(&w->u.fill);
    case WORK_KERNEL:
        return handle_kind(w->u.launch.function) == HANDLE_FUNCTION
                   ? CUDA_SUCCESS
                   : CUDA_ERROR_INVALID_HANDLE;
    case WORK_CALL:
        return w->u.call.function ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case WORK_NOTHING:
        break;
    }
    return CUDA_SUCCESS;
}

/* ---- what is touched, for races between streams (across.h) */

static void touch(uint64_t address, uint64_t bytes, bool write)
{
    if (bytes && memory_is_device_address(address))
        footprint_add(across_footprint(), address, bytes, write, false, 0);
}

static void touch_place(const struct copy *c, const struct place *p, bool write)
{
    for (uint64_t z = 0; z < c->slices; z++)
        for (uint64_t y = 0; y < c->rows; y++)
            touch(p->address + (z * p->slice_rows + y) * p->pitch_bytes, c->width_bytes,
                  write);
}

/* Is it done when the call returns?  A copy to or from memory of the program that is
 * not pinned, or in the default stream, which forms without "Async" use. */
static bool host_waits(const struct CUstream_st *s, const struct copy *c)
{
    const struct place *p =
        memory_is_device_address(c->from.address) ? &c->to : &c->from;
    return !memory_is_device_address(p->address) && (!s || !memory_find(p->address));
}

static CUresult touch_and_check(struct CUctx_st *c, struct CUstream_st *s,
                                const struct work *w)
{
    if (!across_footprint())
        return CUDA_SUCCESS;
    if (w->kind == WORK_COPY) {
        touch_place(&w->u.copy, &w->u.copy.from, false);
        touch_place(&w->u.copy, &w->u.copy.to, true);
    } else {
        const struct fill *f = &w->u.fill;
        for (uint64_t y = 0; y < f->rows; y++)
            touch(f->address + y * f->pitch_bytes,
                  f->width_elems * (uint64_t)f->element_bytes, true);
    }
    CUresult r = launch_check_across(w->kind == WORK_COPY ? "a copy" : "a fill");
    across_end(c, s);
    if (w->kind == WORK_COPY && host_waits(s, &w->u.copy))
        across_host_waits(c, s);
    return r;
}

static CUresult kernel_run(struct CUctx_st *c, struct CUstream_st *s,
                           const struct launch *l)
{
    const char *blocking = getenv("CUDA_LAUNCH_BLOCKING");
    across_begin(c, s, l->function->kernel->func->name);
    CUresult r = launch_run(l);
    across_end(c, s);
    if (blocking && strcmp(blocking, "1") == 0)
        across_host_waits(c, s);
    if (r == CUDA_SUCCESS || r == CUDA_ERROR_OUT_OF_MEMORY)
        return r;
    /* A launch is asynchronous: its error is seen by the calls that follow. */
    c->sticky = r;
    return blocking && strcmp(blocking, "1") == 0 ? r : CUDA_SUCCESS;
}

CUresult work_run(struct CUctx_st *c, struct CUstream_st *s, const struct work *w)
{
    CUresult r = work_check(w);
    if (r != CUDA_SUCCESS)
        return r;
    switch (w->kind) {
    case WORK_KERNEL:
        return kernel_run(c, s, &w->u.launch);
    case WORK_COPY:
        across_begin(c, s, "a copy");
        copy_run(&w->u.copy);
        r = touch_and_check(c, s, w);
        break;
    case WORK_FILL:
        across_begin(c, s, "a fill");
        fill_run(&w->u.fill);
        r = touch_and_check(c, s, w);
        break;
    case WORK_CALL:
        unlock_for_callback();
        w->u.call.function(w->u.call.data);
        lock_after_callback();
        across_host_waits(c, s); /* whoever it tells may go on from there */
        break;
    case WORK_NOTHING:
        break;
    }
    if (r != CUDA_SUCCESS)
        c->sticky = r;
    return CUDA_SUCCESS;
}

CUresult work_copy(struct work *out, const struct work *w)
{
    *out = *w;
    return w->kind == WORK_KERNEL ? launch_copy(&out->u.launch, &w->u.launch)
                                  : CUDA_SUCCESS;
}

void work_free(struct work *w)
{
    if (w->kind == WORK_KERNEL)
        launch_free(&w->u.launch);
    *w = (struct work){0};
}
