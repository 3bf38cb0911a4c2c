/* fuzz_emu.c - damaged kernels on the emulator: whatever they do, it is the kernel that
 * ends and not the process.
 *
 * A process for each input: a damaged kernel may also loop for ever, which is no fault
 * of the emulator and ends with the time allowed. */
#include "gen/job.h"
#include "runtime/fp4gen.h"
#include "tests/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

const char *const fuzz_name = "emu";

enum { M = 3, N = 16, K = 192, ROW = K / 2, LIMIT_S = 2 };

static fp4gen_device *dev;
static uint64_t a, b, sfa, sfb, d;

static uint64_t filled(size_t bytes, unsigned char byte)
{
    uint64_t address;
    fp4gen_error err;
    if (fp4gen_alloc(dev, &address, bytes, &err) != FP4GEN_OK ||
        fp4gen_fill(dev, address, byte, bytes, &err) != FP4GEN_OK) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    return address;
}

/* A kernel that faulted leaves a context that takes nothing more: a new one each time.
 */
static void open_device(void)
{
    fp4gen_error err;
    if (fp4gen_open(&dev, FP4GEN_DRIVER_EMU, 0, "sm_100f", &err) != FP4GEN_OK) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    a = filled(M * ROW, 0x22);
    b = filled(N * ROW, 0x22);
    sfa = filled(K / 64 * 512, 0x38);
    sfb = filled(K / 64 * 512, 0x38);
    d = filled(M * N * 2, 0);
}

const struct fuzz_seed *fuzz_seeds(void)
{
    static struct fuzz_seed seeds[2];
    const struct config_override set[] = {
        {"tile.n", "64"}, {"tile.k", "128"}, {"stages", "2"}};
    const struct job_options options = {
        .overrides = set, .override_count = (int)COUNT_OF(set), .check = true};
    struct job *j = job_run(&options);
    if (j->diags->count == 0)
        seeds[0] = (struct fuzz_seed){strdup(j->image.ptx), j->image.ptx_bytes};
    job_free(j);
    setenv("FP4EMU_QUIET", "1", 1);
    setenv("FP4EMU_STRATEGY", "lazy", 1);
    return seeds;
}

static void run(const char *text, size_t bytes)
{
    fp4gen_error err;
    fp4gen_kernel *k;
    open_device();
    if (fp4gen_load(&k, dev, text, bytes, &err) == FP4GEN_OK) {
        const fp4gen_gemm g = {.m = M,
                               .n = N,
                               .k = K,
                               .a = a,
                               .b = b,
                               .sfa = sfa,
                               .sfb = sfb,
                               .d = d,
                               .alpha = 1};
        if (fp4gen_run(k, &g, &err) == FP4GEN_OK)
            fp4gen_sync(dev, NULL, &err);
        fp4gen_unload(k);
    }
    fp4gen_close(dev);
}

void fuzz_one(const char *text, size_t bytes)
{
    fflush(NULL);
    pid_t child = fork();
    if (child < 0) {
        perror("fork");
        exit(1);
    }
    if (child == 0) {
        alarm(LIMIT_S);
        run(text, bytes);
        exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    bool too_long = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
    if (status != 0 && !too_long)
        abort();
}
