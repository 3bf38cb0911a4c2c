/* t_pair.c - tests/emu/pair_gemm.ptx, a GEMM by pairs of CTAs: it is right, and each
 * thing that is left out of it is told. */
#include "emu/tmap.h"
#include "tests/emu_run.h"
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>

enum { TILE = 256, K_TILE = 256, K_TILES = 5, CLUSTERS = 2, SMEM_BYTES = 78848 };

/* ---- operands: rows of packed elements; scales one byte a row and 16 elements */

enum { K = K_TILE * K_TILES, M = TILE * CLUSTERS };

static uint8_t a_codes[M][K / 2], b_codes[TILE][K / 2];
static uint8_t a_scales[M][K / 16], b_scales[TILE][K / 16];

static uint32_t random_bits(void)
{
    static uint64_t state = 12345;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 32);
}

static void fill(uint8_t *codes, size_t code_bytes, uint8_t *scales, size_t scale_bytes)
{
    /* Scales 0.5, 1 and 2: all sums are exact in an f32. */
    static const uint8_t few[] = {0x30, 0x38, 0x40};
    for (size_t i = 0; i < code_bytes; i++)
        codes[i] = (uint8_t)random_bits();
    for (size_t i = 0; i < scale_bytes; i++)
        scales[i] = few[random_bits() % 3];
}

/* Blocks of 128 rows by 64 elements are 512 bytes: row r's four scales at
 * r % 32 * 16 + r / 32 * 4; a K tile has four, then come those of the next. */
static void lay_scales(uint8_t *to, const uint8_t *scales, uint32_t rows)
{
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t i = 0; i < K / 16; i++) {
            uint32_t block = r / 128 * (K / 64) + i / 4, row = r % 128;
            to[block * 512 + row % 32 * 16 + row / 32 * 4 + i % 4] =
                scales[r * (K / 16) + i];
        }
}

static double value(const uint8_t *codes, const uint8_t *scales, uint32_t k)
{
    static const double e2m1[8] = {0, .5, 1, 1.5, 2, 3, 4, 6};
    uint8_t code = codes[k / 2] >> (k % 2 * 4) & 15, scale = scales[k / 16];
    double x = e2m1[code & 7] * (scale == 0x30 ? .5 : scale == 0x38 ? 1 : 2);
    return code & 8 ? -x : x;
}

static void add_map(struct emu_run *r, uint64_t address, bool is_scales, uint32_t rows)
{
    _Alignas(64) uint8_t map[TMAP_BYTES];
    const uint64_t dims[2] = {is_scales ? 256 : K, is_scales ? rows * K / 4096 : rows};
    const uint64_t stride = is_scales ? 256 : K / 2;
    const uint32_t box[2] = {256, is_scales ? 8 : 128}, steps[2] = {1, 1};
    char why[160];
    if (!tmap_encode(map, is_scales ? 0 : 13, 2, address, dims, &stride, box, steps, 0,
                     is_scales ? 0 : 3, 0, 0, why, sizeof why))
        test_fail(__FILE__, __LINE__, "%s", why);
    emu_param(r, map, sizeof map);
}

/* `text` with each `from` replaced. */
static const char *replaced(struct arena *arena, const char *text, const char *from,
                            const char *to)
{
    size_t hits = 0, from_chars = strlen(from);
    for (const char *p = text; (p = strstr(p, from)); p += from_chars)
        hits++;
    if (hits == 0)
        test_fail(__FILE__, __LINE__, "the kernel has no %s", from);
    char *out = arena_alloc(arena, strlen(text) + hits * strlen(to) + 1);
    char *end = out;
    for (const char *p; (p = strstr(text, from)); text = p + from_chars)
        end += sprintf(end, "%.*s%s", (int)(p - text), text, to);
    strcpy(end, text);
    return out;
}

struct pair_run {
    struct emu_run r;
    uint64_t out;
    struct arena *arena;
};

static void prepare(struct pair_run *x, bool lazy, const char *from, const char *to)
{
    size_t bytes;
    *x = (struct pair_run){.r = {.threads = 256, .lazy = lazy}, .arena = arena_new()};
    const char *text = file_read(x->arena, "tests/emu/pair_gemm.ptx", &bytes);
    CHECK(text != NULL);
    struct emu_run *r = &x->r;
    r->ptx = from ? replaced(x->arena, text, from, to) : text;
    r->grid[0] = 2 * CLUSTERS;
    r->cluster[0] = 2;
    r->smem_bytes = SMEM_BYTES;
    fill(a_codes[0], sizeof a_codes, a_scales[0], sizeof a_scales);
    fill(b_codes[0], sizeof b_codes, b_scales[0], sizeof b_scales);
    uint64_t a = emu_alloc(r, sizeof a_codes), b = emu_alloc(r, sizeof b_codes);
    uint64_t sfa = emu_alloc(r, sizeof a_scales), sfb = emu_alloc(r, sizeof b_scales);
    memcpy(emu_bytes(a), a_codes, sizeof a_codes);
    memcpy(emu_bytes(b), b_codes, sizeof b_codes);
    lay_scales(emu_bytes(sfa), a_scales[0], M);
    lay_scales(emu_bytes(sfb), b_scales[0], TILE);
    x->out = emu_alloc(r, M * TILE * 4);
    add_map(r, a, false, M);
    add_map(r, b, false, TILE);
    add_map(r, sfa, true, M);
    add_map(r, sfb, true, TILE);
    emu_param(r, &x->out, 8);
}

static void done(struct pair_run *x)
{
    emu_done(&x->r);
    arena_free(x->arena);
}

TEST(pairs_multiply)
{
    for (int lazy = 0; lazy < 2; lazy++) {
        struct pair_run x;
        prepare(&x, lazy, NULL, NULL);
        EMU_FINE(&x.r);
        CHECK_EQ(report_warnings(x.r.machine.report), 0);
        for (uint32_t i = 0; i < 4000; i++) {
            uint32_t row = random_bits() % M, column = random_bits() % TILE;
            double want = 0;
            for (uint32_t k = 0; k < K; k++)
                want += value(a_codes[row], a_scales[row], k) *
                        value(b_codes[column], b_scales[column], k);
            float got;
            memcpy(&got, emu_bytes(x.out) + (row * TILE + column) * 4, 4);
            if ((double)got != want)
                test_fail(__FILE__, __LINE__, "D[%u][%u] is %g, not %g", row, column,
                          (double)got, want);
        }
        done(&x);
    }
}

/* Under eager and lazy completion, a report of this check; 0: it goes well by luck. */
static void misuse(const char *from, const char *to, int check_eager, int check_lazy)
{
    for (int lazy = 0; lazy < 2; lazy++) {
        struct pair_run x;
        int want = lazy ? check_lazy : check_eager;
        prepare(&x, lazy, from, to);
        emu_launch(&x.r);
        if (want != (int)report_check(x.r.machine.report))
            test_fail(__FILE__, __LINE__, "%s: check %d expected\n%s%s",
                      lazy ? "lazy" : "eager", want, emu_report(&x.r),
                      emu_refusal(&x.r));
        done(&x);
    }
}

TEST(follower_signals_its_own_barrier)
{
    misuse(" far, bar, 0;", " far, bar, rank;", CHECK_BYTE_COUNT, CHECK_BYTE_COUNT);
}

TEST(leader_expects_its_own_bytes_only)
{
    misuse("[bar], 77824;", "[bar], 38912;", CHECK_PHASE_OVERRUN,
           CHECK_UNFINISHED_COPY);
}

TEST(commit_to_the_leader_only)
{
    misuse("[x], both;\n  add.u32       k", "[x], 1;\n  add.u32       k",
           CHECK_DEADLOCK, CHECK_DEADLOCK);
}

/* try_wait blocks as a rule, which saves it where everything completes at once. */
TEST(no_wait_for_data)
{
    misuse("@!p bra       FULL;", "", 0, CHECK_UNINITIALISED);
}

TEST(no_wait_for_a_free_stage)
{
    misuse("@!p bra       EMPTY;", "", 0, CHECK_STAGE_OVERWRITTEN);
}

TEST(no_wait_for_the_accumulator)
{
    misuse("@!p bra       EPILOGUE;", "", 0, CHECK_UNINITIALISED);
}

TEST(instruction_descriptor_of_half_the_rows)
{
    misuse("0x10400480", "0x08400480", CHECK_DESCRIPTOR, CHECK_DESCRIPTOR);
}

TEST(scales_of_half_the_columns)
{
    misuse("tcgen05.cp.cta_group::2.32x128b.warpx4 [y+4], c;", "", CHECK_UNINITIALISED,
           CHECK_UNINITIALISED);
}

/* Without the last barrier of the cluster the follower frees what is still in use. */
TEST(follower_leaves_early)
{
    misuse("DONE:\n  barrier.cluster.arrive.release.aligned;\n"
           "  barrier.cluster.wait.acquire.aligned;\n",
           "DONE:\n", CHECK_TMEM_OUTSIDE, CHECK_TMEM_OUTSIDE);
}
