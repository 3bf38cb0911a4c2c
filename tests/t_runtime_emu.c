/* libfp4gen and the emulator: a generated kernel through the whole API, as a user's
 * program runs it. */
#include "runtime/fp4gen.h"
#include "core/fp4.h"
#include "gen/job.h"
#include "tests/test.h"

#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* A kernel and a device as a user's program has them. */
struct session {
    fp4gen_device *dev;
    fp4gen_kernel *kernel;
};

static struct session open_emulator(const char *tile_n)
{
    const struct config_override fields[] = {
        {"tile.m", "128"}, {"tile.n", tile_n}, {"tile.k", "128"}};
    struct job *j = job_run(
        &(struct job_options){.overrides = fields, .override_count = 3, .check = true});
    CHECK_EQ(j->diags->count, 0);
    struct session s = {0};
    fp4gen_error err = {0};
    unsetenv("FP4GEN_EMU_LIB"); /* it is found in ../lib */
    fp4gen_open(&s.dev, FP4GEN_DRIVER_EMU, -1, j->image.target, &err);
    CHECK_STR(err.text, "");
    fp4gen_load(&s.kernel, s.dev, j->image.ptx, j->image.ptx_bytes, &err);
    CHECK_STR(err.text, "");
    job_free(j);
    return s;
}

static void close_session(struct session *s)
{
    fp4gen_unload(s->kernel);
    fp4gen_close(s->dev);
}

/* The emulator has the real driver's SONAME, and does not pass for it. */
TEST(opened_emulator_is_no_real_driver)
{
    if (dlopen("libcuda.so.1", RTLD_NOW))
        SKIP("this machine has a driver");
    fp4gen_device *emulator = NULL, *dev = NULL;
    fp4gen_error err = {0};
    unsetenv("FP4GEN_EMU_LIB");
    fp4gen_open(&emulator, FP4GEN_DRIVER_EMU, 0, NULL, &err);
    CHECK_STR(err.text, "");
    CHECK_EQ(fp4gen_open(&dev, FP4GEN_DRIVER_CUDA, 0, NULL, &err), FP4GEN_NO_DRIVER);
    CHECK_STR(err.code, "no-libcuda");
    CHECK(strstr(err.text, "is the emulator that this process has opened") != NULL);
    fp4gen_close(emulator);
}

/* One product with m x n x k of ones, and what comes out: k * alpha everywhere. */
struct ones {
    struct session *s;
    uint32_t m, n, k;
    float alpha;
    bool alpha_on_device;
    bool ok;
};

static uint64_t filled(fp4gen_device *dev, unsigned char byte, size_t bytes)
{
    uint64_t address = 0;
    CHECK_EQ(fp4gen_alloc(dev, &address, bytes, NULL), FP4GEN_OK);
    CHECK_EQ(fp4gen_fill(dev, address, byte, bytes, NULL), FP4GEN_OK);
    return address;
}

static void *multiply_ones(void *arg)
{
    struct ones *o = arg;
    fp4gen_device *dev = o->s->dev;
    const size_t row_bytes = (o->k / 2 + 15) / 16 * 16, ldd = (o->n * 2 + 15) / 16 * 16;
    const size_t k64 = (o->k + 63) / 64;
    fp4gen_gemm g = {.m = o->m,
                     .n = o->n,
                     .k = o->k,
                     .lda = row_bytes,
                     .ldb = row_bytes,
                     .ldd = ldd,
                     .alpha = o->alpha};
    g.a = filled(dev, 0x22, o->m * row_bytes + 16); /* E2M1 1.0 twice */
    g.b = filled(dev, 0x22, o->n * row_bytes + 16);
    g.sfa = filled(dev, 0x38, (o->m + 127) / 128 * k64 * 512 + 16); /* UE4M3 1.0 */
    g.sfb = filled(dev, 0x38, (o->n + 127) / 128 * k64 * 512 + 16);
    g.d = filled(dev, 0xff, o->m * ldd);
    if (o->alpha_on_device) {
        g.alpha = 1e30f;
        g.alpha_ptr = filled(dev, 0, 4);
        CHECK_EQ(fp4gen_upload(dev, g.alpha_ptr, &o->alpha, 4, NULL), FP4GEN_OK);
    }
    fp4gen_error err = {0};
    fp4gen_run(o->s->kernel, &g, &err);
    CHECK_STR(err.text, "");
    fp4gen_sync(dev, NULL, &err);
    CHECK_STR(err.text, "");
    uint8_t *d = malloc(o->m * ldd);
    CHECK(d != NULL);
    CHECK_EQ(fp4gen_download(dev, d, g.d, o->m * ldd, &err), FP4GEN_OK);
    o->ok = true;
    for (size_t row = 0; row < o->m; row++)
        for (size_t col = 0; col < ldd / 2; col++) {
            uint16_t bits;
            memcpy(&bits, d + row * ldd + col * 2, 2);
            o->ok &= col < o->n ? bf16_decode(bits) == (float)o->k * o->alpha
                                : bits == 0xffff;
        }
    free(d);
    const uint64_t all[] = {g.a, g.b, g.sfa, g.sfb, g.d, g.alpha_ptr};
    for (size_t i = 0; i < COUNT_OF(all); i++)
        CHECK_EQ(fp4gen_free(dev, all[i], NULL), FP4GEN_OK);
    return NULL;
}

TEST(emulator_multiplies_ones)
{
    struct session s = open_emulator("64");
    fp4gen_device_info info;
    fp4gen_device_get_info(s.dev, &info);
    CHECK_EQ(info.emulated, 1);
    CHECK(info.sm_count > 1);
    struct ones plain = {&s, 130, 72, 256, 1, false, false};
    multiply_ones(&plain);
    CHECK(plain.ok);
    struct ones scaled = {&s, 1, 9, 64, 0.25f, true, false};
    multiply_ones(&scaled);
    CHECK(scaled.ok);
    struct ones nothing = {&s, 5, 40, 0, 1, false, false}; /* k = 0: zeros */
    multiply_ones(&nothing);
    CHECK(nothing.ok);
    close_session(&s);
}

TEST(emulator_from_several_threads)
{
    struct session s = open_emulator("64");
    struct ones work[3] = {{&s, 128, 64, 128, 1, false, false},
                           {&s, 200, 100, 256, 2, true, false},
                           {&s, 40, 200, 192, 0.5f, false, false}};
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, multiply_ones, &work[i]), 0);
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        CHECK(work[i].ok);
    }
    close_session(&s);
}

/* A program with a context of its own finds it current after each of our calls. */
TEST(context_of_the_caller_is_left_alone)
{
    struct session s = open_emulator("64");
    CUresult (*create)(CUcontext *, unsigned, CUdevice), (*get)(CUcontext *);
    void *symbols[2] = {fp4gen_driver_symbol(s.dev, "cuCtxCreate_v2"),
                        fp4gen_driver_symbol(s.dev, "cuCtxGetCurrent")};
    CHECK(symbols[0] && symbols[1]);
    CHECK(fp4gen_driver_symbol(s.dev, "no_such_symbol") == NULL);
    memcpy(&create, &symbols[0], sizeof create);
    memcpy(&get, &symbols[1], sizeof get);
    CUcontext mine = NULL, now = NULL;
    CHECK_EQ(create(&mine, 0, 0), CUDA_SUCCESS);
    struct ones o = {&s, 128, 64, 128, 1, false, false};
    multiply_ones(&o);
    CHECK(o.ok);
    CHECK_EQ(get(&now), CUDA_SUCCESS);
    CHECK(now == mine);
    close_session(&s);
}

/* Without FP4EMU_DEVICE the emulator becomes what the first kernel asks for; after
 * that it is one device, as a real one is. */
TEST(emulator_refuses_other_architectures)
{
    setenv("FP4EMU_DEVICE", "sm_90", 1);
    struct job *j = job_run(&(struct job_options){.check = true});
    CHECK_EQ(j->diags->count, 0);
    fp4gen_device *dev = NULL;
    fp4gen_kernel *k = NULL;
    fp4gen_error err = {0};
    CHECK_EQ(fp4gen_open(&dev, FP4GEN_DRIVER_EMU, -1, NULL, &err), FP4GEN_OK);
    CHECK_EQ(fp4gen_load(&k, dev, j->image.ptx, j->image.ptx_bytes, &err),
             FP4GEN_LOAD_FAILED);
    CHECK(k == NULL);
    CHECK(strstr(err.text, "sm_100f") != NULL);
    fp4gen_close(dev);
    job_free(j);
}
