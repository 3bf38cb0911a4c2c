#include "tests/h200/tma_copy.h"

#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define SIDE 64         /* of a box, elements of 2 bytes */
#define BOX_BYTES 8192u /* in tma_copy.ptx too */
#define GUARD_BYTES 1024u
#define POISON 0xcd
#define THREADS 4

struct copy {
    uint32_t rows, cols; /* elements */
    uint64_t stride;     /* bytes */
    fp4gen_device *dev;
    fp4gen_module *module;
    fp4gen_error err;
    char wrong[256]; /* what differs, "" when nothing does */
    /* host */
    uint8_t *in, *out, *dump;
    size_t in_bytes, out_bytes, dump_bytes;
    /* device */
    uint64_t in_at, out_at, dump_at;
};

static uint32_t boxes(uint32_t side)
{
    return (side + SIDE - 1) / SIDE;
}

/* A byte that says where it belongs. */
static uint8_t byte_at(size_t row, size_t byte)
{
    uint32_t h = (uint32_t)(row * 0x9e3779b1u) ^ (uint32_t)(byte * 0x85ebca77u);
    return (uint8_t)((h ^ h >> 15) >> 3);
}

static bool make_buffers(struct copy *c)
{
    c->in_bytes = c->rows * c->stride;
    c->out_bytes = c->in_bytes + 2 * GUARD_BYTES;
    c->dump_bytes = (size_t)boxes(c->rows) * boxes(c->cols) * BOX_BYTES;
    c->in = malloc(c->in_bytes);
    c->out = malloc(c->out_bytes);
    c->dump = malloc(c->dump_bytes);
    if (!c->in || !c->out || !c->dump) {
        snprintf(c->wrong, sizeof c->wrong, "no host memory");
        return false;
    }
    for (size_t row = 0; row < c->rows; row++)
        for (size_t i = 0; i < c->stride; i++)
            c->in[row * c->stride + i] = byte_at(row, i);
    memset(c->out, POISON, c->out_bytes);
    memset(c->dump, POISON, c->dump_bytes);
    return !fp4gen_alloc(c->dev, &c->in_at, c->in_bytes, &c->err) &&
           !fp4gen_alloc(c->dev, &c->out_at, c->out_bytes, &c->err) &&
           !fp4gen_alloc(c->dev, &c->dump_at, c->dump_bytes, &c->err) &&
           !fp4gen_upload(c->dev, c->in_at, c->in, c->in_bytes, &c->err) &&
           !fp4gen_upload(c->dev, c->out_at, c->out, c->out_bytes, &c->err) &&
           !fp4gen_upload(c->dev, c->dump_at, c->dump, c->dump_bytes, &c->err);
}

static bool launch(struct copy *c)
{
    fp4gen_tensor_desc desc = {.name = "in",
                               .type = CU_TENSOR_MAP_DATA_TYPE_UINT16,
                               .rank = 2,
                               .address = c->in_at,
                               .dims = {c->cols, c->rows},
                               .strides = {c->stride},
                               .box = {SIDE, SIDE},
                               .swizzle = CU_TENSOR_MAP_SWIZZLE_128B,
                               .l2_promotion = CU_TENSOR_MAP_L2_PROMOTION_L2_128B};
    fp4gen_tensor_map in, out;
    if (fp4gen_encode(c->dev, &in, &desc, &c->err))
        return false;
    desc.name = "out";
    desc.address = c->out_at + GUARD_BYTES;
    desc.swizzle = CU_TENSOR_MAP_SWIZZLE_NONE;
    if (fp4gen_encode(c->dev, &out, &desc, &c->err))
        return false;
    void *params[] = {&in, &out, &c->dump_at};
    fp4gen_launch l = {.entry = "tma_copy",
                       .grid = {boxes(c->cols), boxes(c->rows), 1},
                       .block = {128, 1, 1},
                       .smem_bytes = 2 * BOX_BYTES + 8,
                       .params = params};
    return !fp4gen_module_launch(c->module, &l, &c->err) &&
           !fp4gen_sync(c->dev, NULL, &c->err) &&
           !fp4gen_download(c->dev, c->out, c->out_at, c->out_bytes, &c->err) &&
           !fp4gen_download(c->dev, c->dump, c->dump_at, c->dump_bytes, &c->err);
}

/* The copy itself, what lies between and around its rows, and the boxes as loaded. */
static bool compare(struct copy *c)
{
    for (size_t i = 0; i < c->out_bytes; i++) {
        uint8_t want = POISON;
        if (i >= GUARD_BYTES && i < GUARD_BYTES + c->in_bytes) {
            size_t row = (i - GUARD_BYTES) / c->stride,
                   at = (i - GUARD_BYTES) % c->stride;
            /* A tensor store writes whole 16-byte pieces of a row; what it puts behind
             * the last column is the zero that the load filled in. */
            if (at < 2 * c->cols)
                want = byte_at(row, at);
            else if (at < (2 * (size_t)c->cols + 15) / 16 * 16)
                want = 0;
        }
        if (c->out[i] != want) {
            snprintf(c->wrong, sizeof c->wrong,
                     "byte %lld of the copy is 0x%02x, not 0x%02x",
                     (long long)i - GUARD_BYTES, c->out[i], want);
            return false;
        }
    }
    for (size_t i = 0; i < c->dump_bytes; i++) {
        size_t box = i / BOX_BYTES, across = boxes(c->cols);
        size_t row = box / across * SIDE + i % BOX_BYTES / (2 * SIDE);
        size_t at = box % across * (2 * SIDE) + i % (2 * SIDE);
        uint8_t want = row < c->rows && at < 2 * c->cols ? byte_at(row, at) : 0;
        if (c->dump[i] != want) {
            snprintf(c->wrong, sizeof c->wrong,
                     "byte %zu of box %zu was loaded as 0x%02x, not 0x%02x",
                     i % BOX_BYTES, box, c->dump[i], want);
            return false;
        }
    }
    return true;
}

static bool copy(struct copy *c)
{
    bool ok = make_buffers(c) && launch(c) && compare(c);
    fp4gen_free(c->dev, c->in_at, NULL);
    fp4gen_free(c->dev, c->out_at, NULL);
    fp4gen_free(c->dev, c->dump_at, NULL);
    free(c->in);
    free(c->out);
    free(c->dump);
    return ok;
}

static int step(FILE *out, bool ok, const char *what, const struct copy *c)
{
    const char *why = ok || !c ? "" : c->wrong[0] ? c->wrong : c->err.text;
    fprintf(out, "%s  %s%s%s\n", ok ? "ok  " : "FAIL", what, *why ? ": " : "", why);
    return !ok;
}

static int copy_shapes(fp4gen_device *dev, fp4gen_module *m, FILE *out)
{
    static const struct {
        uint32_t rows, cols;
        uint64_t stride; /* 0: dense */
    } shapes[] = {
        {64, 64, 0},       {1, 8, 0},       {1, 1, 16},      {3, 7, 32},
        {64, 72, 0},       {65, 64, 0},     {127, 129, 272}, {128, 128, 0},
        {300, 1000, 2016}, {63, 2, 4096},   {1, 4104, 0},    {1000, 8, 0},
        {777, 333, 672},   {2048, 2048, 0},
    };
    int failed = 0;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        struct copy c = {.rows = shapes[i].rows,
                         .cols = shapes[i].cols,
                         .stride =
                             shapes[i].stride ? shapes[i].stride : 2u * shapes[i].cols,
                         .dev = dev,
                         .module = m};
        char what[96];
        snprintf(what, sizeof what, "copy %u x %u, rows %llu bytes apart", c.rows,
                 c.cols, (unsigned long long)c.stride);
        failed += step(out, copy(&c), what, &c);
    }
    return failed;
}

static void *copy_in_thread(void *arg)
{
    return copy(arg) ? NULL : arg;
}

/* One module and one device from several threads at once. */
static int copy_in_threads(fp4gen_device *dev, fp4gen_module *m, FILE *out)
{
    struct copy copies[THREADS];
    pthread_t threads[THREADS];
    const struct copy *bad = NULL;
    int started = 0;
    for (int i = 0; i < THREADS; i++) {
        copies[i] = (struct copy){.rows = 200 + 31 * (uint32_t)i,
                                  .cols = 500,
                                  .stride = 1008,
                                  .dev = dev,
                                  .module = m};
        if (pthread_create(&threads[i], NULL, copy_in_thread, &copies[i]) != 0)
            break;
        started++;
    }
    for (int i = 0; i < started; i++) {
        void *result = NULL;
        pthread_join(threads[i], &result);
        if (result)
            bad = result;
    }
    return step(out, !bad && started == THREADS, "copies in four threads", bad);
}

/* The driver's own words must reach the caller, and no error may outlast its call. */
static int provoke_errors(fp4gen_device *dev, const char *ptx, size_t bytes, FILE *out)
{
    int failed = 0;
    fp4gen_module *m = NULL;
    fp4gen_error err = {0};
    char *broken = malloc(bytes + 1);
    if (!broken)
        return step(out, false, "no host memory", NULL);
    memcpy(broken, ptx, bytes);
    broken[bytes] = '\0';
    char *place = strstr(broken, "bar.sync");
    if (place)
        memcpy(place, "bar.sink", 8);
    fp4gen_status status = fp4gen_module_load(&m, dev, broken, bytes, &err);
    failed += step(out,
                   place && status == FP4GEN_LOAD_FAILED && err.cuda != 0 &&
                       strstr(err.text, "log") && strstr(err.text, ".sink"),
                   "a load that fails names what was not understood", NULL);
    if (failed)
        fprintf(out, "      status %d: %s\n", (int)status, err.text);
    free(broken);
    if (!status)
        fp4gen_module_unload(m);

    err = (fp4gen_error){0};
    fp4gen_tensor_map map;
    fp4gen_tensor_desc desc = {.name = "x",
                               .type = CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B,
                               .rank = 2,
                               .address = 0x1000000,
                               .dims = {1056, 300},
                               .strides = {528},
                               .box = {256, 128},
                               .swizzle = CU_TENSOR_MAP_SWIZZLE_128B};
    /* Passes our rules: what the driver of an older GPU says of FP4 is its business. */
    status = fp4gen_encode(dev, &map, &desc, &err);
    fprintf(out, "note  a packed FP4 tensor map on this device: %s\n",
            status ? err.text : "accepted");
    return failed;
}

int tma_copy_test(fp4gen_driver driver, const char *ptx, size_t ptx_bytes, FILE *out)
{
    fp4gen_device *dev = NULL;
    fp4gen_module *m = NULL;
    fp4gen_device_info info = {.name = "no device"};
    fp4gen_error err = {0};
    int failed = 0;
    if (fp4gen_open(&dev, driver, -1, "sm_90a", &err) ||
        fp4gen_module_load(&m, dev, ptx, ptx_bytes, &err)) {
        failed = 1;
        fprintf(out, "FAIL  %s\n", err.text);
    }
    if (dev)
        fp4gen_device_get_info(dev, &info);
    if (!failed) {
        failed += copy_shapes(dev, m, out);
        failed += copy_in_threads(dev, m, out);
        failed += provoke_errors(dev, ptx, ptx_bytes, out);
        failed += copy_shapes(dev, m, out); /* nothing was harmed */
    }
    fp4gen_module_unload(m);
    fp4gen_close(dev);
    fprintf(out, "%s  %s, compute capability %d.%d, %d SMs, driver of CUDA %d.%d%s\n",
            failed ? "FAIL" : "PASS", info.name, info.cc / 10, info.cc % 10,
            info.sm_count, info.driver_version / 1000, info.driver_version % 1000 / 10,
            info.emulated ? ", emulated" : "");
    return failed;
}
