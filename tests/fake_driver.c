#include "tests/fake_driver.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/kernel_text.h"
#include "tests/test.h"

const char *fake_path(struct arena *a, const char *which)
{
    char program[4096] = "";
    CHECK(readlink("/proc/self/exe", program, sizeof program - 1) > 0);
    *strrchr(program, '/') = '\0';
    return arena_printf(a, "%s/%s/libcuda.so.1", program, which);
}

void load_fake(const char *which)
{
    struct arena *a = arena_new();
    CHECK(dlopen(fake_path(a, which), RTLD_NOW) != NULL);
    arena_free(a);
}

struct fake *calls(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    CHECK(library != NULL);
    struct fake *(*ask)(void);
    void *symbol = dlsym(library, "fake_calls");
    CHECK(symbol != NULL);
    memcpy(&ask, &symbol, sizeof ask);
    return ask();
}

fp4gen_device *open_fake(void)
{
    fp4gen_device *dev = NULL;
    fp4gen_error err = {0};
    load_fake("fake");
    fp4gen_open(&dev, FP4GEN_DRIVER_CUDA, 0, NULL, &err);
    CHECK_STR(err.text, "");
    return dev;
}

fp4gen_kernel *load_fake_kernel(fp4gen_device *dev, const char *manifest)
{
    struct arena *a = arena_new();
    const char *text = kernel_text(a, manifest);
    fp4gen_kernel *k = NULL;
    fp4gen_error err = {0};
    fp4gen_load(&k, dev, text, strlen(text), &err);
    CHECK_STR(err.text, "");
    arena_free(a);
    return k;
}

fp4gen_kernel *load_kernel(fp4gen_device *dev)
{
    return load_fake_kernel(dev, kernel_manifest);
}

fp4gen_gemm good_gemm(void)
{
    return (fp4gen_gemm){.m = 300,
                         .n = 520,
                         .k = 1088,
                         .a = 0x10000,
                         .b = 0x20000,
                         .sfa = 0x30000,
                         .sfb = 0x40000,
                         .d = 0x50000,
                         .alpha = 0.5f};
}

void check_run(fp4gen_kernel *k, fp4gen_gemm g, const char *code, const char *words)
{
    fp4gen_error err = {0};
    int launches = calls()->launches;
    CHECK_EQ(fp4gen_run(k, &g, &err), *code ? FP4GEN_BAD_ARGUMENT : FP4GEN_OK);
    CHECK_STR(err.code, code);
    if (!strstr(err.text, words))
        CHECK_STR(err.text, words);
    CHECK_EQ(calls()->launches, launches + !*code);
    CHECK_EQ(calls()->depth, 0);
}
