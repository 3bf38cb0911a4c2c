/* gen/lower: the worker that may die, the cache that many share, what is refused before
 * LLVM is asked.  A stand-in for the library keeps LLVM out of it. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/lower_run.h"
#include "tests/test.h"

/* Beside the tests, see gen/lower.mk. */
static void use_fake(const char *how)
{
    char path[4096];
    ssize_t chars = readlink("/proc/self/exe", path, sizeof path - 32);
    CHECK(chars > 0);
    path[chars] = '\0';
    snprintf(strrchr(path, '/'), 32, "/fake_llvm.so");
    setenv("FP4GEN_LLVM_LIB", path, 1);
    setenv("FAKE_LLVM", how, 1);
}

static const char *use_cache(void)
{
    const char *dir = test_tmp_path("deep/cache");
    setenv("FP4GEN_CACHE", dir, 1);
    setenv("FAKE_LLVM_LOG", test_tmp_path("log"), 1);
    return dir;
}

static long requests_seen(void)
{
    const char *path = getenv("FAKE_LLVM_LOG");
    struct stat st;
    return path && stat(path, &st) == 0 ? (long)st.st_size : 0;
}

static const struct lowered *lower_for(struct arena *a, const char *body,
                                       const char *target, int chunk, struct diags *d)
{
    struct lower_request r = {.e = lower_trace(a, body),
                              .target = target_find(target),
                              .ptx_version = 88,
                              .chunk = chunk,
                              .prefix = "ep",
                              .loc = {"my.lua", 12, 3}};
    return lower_epilogue(a, &r, d);
}

#define PLAIN "return e.bf16(e.acc * e.param 's' * 2)"

static bool lowers(void)
{
    struct arena *a = arena_new();
    struct diags *d = diags_new(a);
    const struct lowered *l = lower_for(a, PLAIN, "sm_100f", 32, d);
    bool ok = l && strstr(l->chunk.text, "mov o0_w0, m;") &&
              strstr(l->tail.text, "mov o0_w0, n;") && l->tail.insns == 2;
    arena_free(a);
    return ok;
}

/* In a process that has nothing in memory. */
static bool lowers_afresh(void)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0)
        _exit(lowers() ? 0 : 1);
    int status;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
}

TEST(text_of_the_blocks)
{
    use_fake("");
    use_cache();
    struct arena *a = arena_new();
    struct diags *d = diags_new(a);
    const struct lowered *l =
        lower_for(a,
                  "local c = e.aux 'c' return e.nvfp4(e.acc * e.param 's' + c, "
                  "{ global = 1 }), e.amax(c)",
                  "sm_100f", 64, d);
    CHECK(l != NULL);
    CHECK_STR(l->decls, "  .reg .b64    arg_c, argld_c;\n"
                        "  .reg .b32    arg_s;\n"
                        "  .reg .b32    o0_w<8>;\n"
                        "  .reg .b32    o0_s<1>;\n"
                        "  .reg .b32    o1_amax;\n"
                        "  .reg .b32    ep_h0;\n");
    CHECK_STR(l->chunk.text,
              "{ // epilogue, chunk\n"
              "  //   d = nvfp4(acc * s + c, global = 1, division = exact, rounding = "
              "nearest, path = auto)\n"
              "  //   amax = amax(c)\n"
              "  mov o0_w0, m;\n"
              "}\n");
    CHECK_EQ(l->tile_words, 1);
    arena_free(a);
}

/* NULL: nothing is kept there. */
static const char *find_entry(struct arena *a, const char *dir)
{
    DIR *listing = opendir(dir);
    const char *path = NULL;
    CHECK(listing != NULL);
    for (struct dirent *f; (f = readdir(listing)) != NULL;)
        if (strncmp(f->d_name, "epilogue-", 9) == 0)
            path = arena_printf(a, "%s/%s", dir, f->d_name);
    closedir(listing);
    return path;
}

static const char *entry_path(struct arena *a, const char *dir)
{
    const char *path = find_entry(a, dir);
    CHECK(path != NULL);
    return path;
}

static void check_refused(const char *how, const char *code, const char *words)
{
    use_fake(how);
    struct arena *a = arena_new();
    struct diags *d = diags_new(a);
    CHECK(!lower_for(a, PLAIN, "sm_100f", 32, d));
    CHECK_EQ(d->count, 1);
    CHECK_DIAG(d, code, 12);
    if (!strstr(d->first->text, words))
        test_fail(__FILE__, __LINE__, "\"%s\" is not in: %s", words, d->first->text);
    arena_free(a);
}

TEST(a_crash_becomes_one_message_and_the_next_request_works)
{
    use_cache();
    check_refused("abort", "epilogue-llvm", "signal 6");
    check_refused("fatal", "epilogue-llvm", "Cannot select: t7");
    check_refused("exit", "epilogue-llvm", "status 3");
    use_fake("");
    CHECK(lowers());
    CHECK_EQ(requests_seen(), 4);
}

TEST(a_refusal_is_passed_on)
{
    use_cache();
    check_refused("refuse", "epilogue-llvm", "it does not please");
}

TEST(a_library_of_another_age_is_told_and_not_remembered)
{
    const char *dir = use_cache();
    struct arena *a = arena_new();
    check_refused("garbage", "epilogue-llvm", "of different age");
    CHECK(!find_entry(a, dir));
    use_fake("");
    CHECK(lowers_afresh()); /* by a worker that has the new environment */
    CHECK_EQ(requests_seen(), 2);
    arena_free(a);
}

/* Whole by its hash, and no answer: an older program kept such entries. */
TEST(an_entry_that_is_no_answer_is_replaced)
{
    use_fake("");
    const char *dir = use_cache();
    struct arena *a = arena_new();
    CHECK(lowers_afresh());
    size_t bytes, key_bytes, reply_bytes;
    int head_bytes = 0;
    const char *path = entry_path(a, dir), *good = file_read(a, path, &bytes);
    CHECK_EQ(sscanf(good, "fp4gen-epilogue 1 %zu %zu %*x%n", &key_bytes, &reply_bytes,
                    &head_bytes),
             2);
    struct buf body, file;
    buf_init(&body, a);
    buf_init(&file, a);
    buf_add(&body, good + head_bytes + 1, key_bytes);
    buf_puts(&body, "block of stone\n");
    buf_printf(&file, "fp4gen-epilogue 1 %zu %zu %016llx\n", key_bytes,
               body.bytes - key_bytes,
               (unsigned long long)hash_bytes(body.data, body.bytes));
    buf_add(&file, body.data, body.bytes);
    CHECK(file_write(path, file.data, file.bytes));
    CHECK(lowers());
    CHECK(lowers()); /* from memory, which met the damaged one first */
    CHECK_EQ(requests_seen(), 2);
    size_t now_bytes;
    const char *now = file_read(a, path, &now_bytes);
    CHECK(now && now_bytes == bytes && memcmp(now, good, bytes) == 0);
    arena_free(a);
}

TEST(a_library_that_hangs_is_given_up)
{
    use_cache();
    setenv("FP4GEN_LLVM_SECONDS", "1", 1);
    check_refused("hang", "epilogue-llvm", "no answer within 1 s; FP4GEN_LLVM_SECONDS");
    use_fake("");
    CHECK(lowers());
}

TEST(a_missing_library_is_told)
{
    use_cache();
    setenv("FP4GEN_LLVM_LIB", "/nowhere/libfp4gen-llvm.so", 1);
    struct arena *a = arena_new();
    struct diags *d = diags_new(a);
    CHECK(!lower_for(a, PLAIN, "sm_100f", 32, d));
    CHECK_DIAG(d, "epilogue-no-llvm", 12);
    CHECK(strstr(d->first->text, "LLVM 22") && strstr(d->first->text, "/nowhere/"));
    arena_free(a);
}

TEST(what_is_known_before_is_told_before)
{
    use_fake("abort");
    use_cache();
    static const struct {
        const char *body, *target;
        int chunk;
        const char *code;
        int line;
    } rows[] = {
        {"return\n e.nvfp4(e.acc, { global = 1, path = 'hardware' })", "sm_90a", 32,
         "epilogue-path", 2},
        {"return e.bf16(e.acc), \n\n e.e4m3(e.acc, { path = 'hardware' })", "sm_80", 32,
         "epilogue-path", 3},
        {"return e.mxfp8(e.acc, { path = 'hardware' })", "sm_80", 32, "epilogue-path",
         1},
        {"return e.mxfp4(e.acc)", "sm_100f", 16, "epilogue-chunk", 12},
        {"local g, u = e.interleaved(16) return e.mxfp4(g * u)", "sm_100f", 32,
         "epilogue-chunk", 12},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct arena *a = arena_new();
        struct diags *d = diags_new(a);
        CHECK(!lower_for(a, rows[i].body, rows[i].target, rows[i].chunk, d));
        CHECK_DIAG(d, rows[i].code, rows[i].line);
        arena_free(a);
    }
    CHECK_EQ(requests_seen(), 0);
}

TEST(one_request_serves_memory_and_disk)
{
    use_fake("");
    use_cache();
    CHECK(lowers_afresh());
    CHECK_EQ(requests_seen(), 1);
    CHECK(lowers());
    CHECK(lowers());
    CHECK(lowers_afresh());
    CHECK_EQ(requests_seen(), 1);
    /* The disk may go; what is in memory stays. */
    setenv("FP4GEN_CACHE", "", 1);
    CHECK(lowers());
    CHECK_EQ(requests_seen(), 1);
}

TEST(without_a_disk_it_works)
{
    use_fake("");
    use_cache();
    setenv("FP4GEN_CACHE", "/proc/no/such/place", 1);
    CHECK(lowers());
    CHECK(lowers());
    CHECK_EQ(requests_seen(), 1);
}

TEST(damaged_entries_are_made_again)
{
    use_fake("");
    const char *dir = use_cache();
    struct arena *a = arena_new();
    CHECK(lowers_afresh());
    const char *path = entry_path(a, dir);
    size_t bytes;
    const char *good = file_read(a, path, &bytes);
    long seen = 1;
    for (size_t damage = 0; damage < 8; damage++) {
        char *bad = arena_strndup(a, good, bytes);
        size_t bad_bytes = damage == 0   ? 0
                           : damage == 1 ? bytes / 2
                           : damage == 2 ? bytes - 1
                           : damage == 3 ? 5
                                         : bytes;
        if (damage >= 4)
            bad[bytes * (damage - 4) / 4 + 2] ^= 1;
        CHECK(file_write(path, bad, bad_bytes));
        CHECK(lowers_afresh());
        CHECK_EQ(requests_seen(), ++seen);
        size_t now_bytes;
        const char *now = file_read(a, path, &now_bytes);
        CHECK(now && now_bytes == bytes && memcmp(now, good, bytes) == 0);
    }
    arena_free(a);
}

TEST(a_key_is_compared_not_only_its_hash)
{
    use_fake("");
    const char *dir = use_cache();
    struct arena *a = arena_new();
    struct diags *d = diags_new(a);
    CHECK(lowers_afresh());
    size_t bytes;
    const char *path = entry_path(a, dir), *good = file_read(a, path, &bytes);
    CHECK(lower_for(a, "return e.f32(e.acc)", "sm_100f", 32, d) != NULL);
    CHECK_EQ(requests_seen(), 2);
    /* The other entry under this one's name. */
    DIR *listing = opendir(dir);
    for (struct dirent *f; (f = readdir(listing)) != NULL;)
        if (strncmp(f->d_name, "epilogue-", 9) == 0)
            CHECK(file_write(arena_printf(a, "%s/%s", dir, f->d_name), good, bytes));
    closedir(listing);
    CHECK(lowers_afresh());
    CHECK_EQ(requests_seen(), 2);
    arena_free(a);
}

/* T3 of cases.md: 8 processes, one cold folder, one writer killed. */
TEST(eight_processes_make_one_request)
{
    use_fake("slow");
    use_cache();
    enum { PROCESSES = 8 };
    pid_t children[PROCESSES];
    fflush(NULL);
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        if (children[i] == 0)
            _exit(lowers() ? 0 : 1);
    }
    struct timespec nap = {0, 300000000};
    nanosleep(&nap, NULL);
    kill(children[0], SIGKILL); /* perhaps the one that has the lock */
    int good = 0, status;
    for (int i = 0; i < PROCESSES; i++)
        if (waitpid(children[i], &status, 0) == children[i] && WIFEXITED(status))
            good += WEXITSTATUS(status) == 0;
    CHECK_EQ(good, PROCESSES - 1);
    CHECK(requests_seen() <= 2); /* two where the killed one was first */
}
