/* Approximate instructions on the emulator: correctly rounded, and with
 * FP4EMU_APPROX=perturb a unit in the last place off now and then. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/emu_insn.h"
#include "tests/test.h"

#define COUNT 3000u

static const struct {
    const char *text, *types;
} rows[] = {
    {"rcp.approx.f32 %0, %1;", "rr"},        {"rcp.approx.ftz.f32 %0, %1;", "rr"},
    {"sqrt.approx.f32 %0, %1;", "rr"},       {"rsqrt.approx.ftz.f32 %0, %1;", "rr"},
    {"ex2.approx.f32 %0, %1;", "rr"},        {"lg2.approx.ftz.f32 %0, %1;", "rr"},
    {"sin.approx.f32 %0, %1;", "rr"},        {"cos.approx.f32 %0, %1;", "rr"},
    {"tanh.approx.f32 %0, %1;", "rr"},       {"div.approx.f32 %0, %1, %2;", "rrr"},
    {"div.full.ftz.f32 %0, %1, %2;", "rrr"}, {"tanh.approx.f16 %0, %1;", "hh"},
    {"ex2.approx.ftz.bf16 %0, %1;", "hh"},
};

/* Mostly of moderate size, some of any. */
static void make_operands(uint64_t list[COUNT][EMU_INSN_SOURCES], bool half)
{
    uint64_t x = 1;
    memset(list, 0, COUNT * sizeof *list);
    for (size_t i = 0; i < COUNT; i++)
        for (size_t k = 0; k < 2; k++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            uint32_t bits = (uint32_t)(x >> 32);
            if (i % 8)
                bits = (bits & 0x007fffffu) | (122 + bits / 0x800000 % 8) << 23;
            list[i][k] = half ? bits >> 16 : bits;
        }
}

/* Seed 0: not perturbed. */
static uint64_t *run(const struct emu_insn *insn, uint64_t seed,
                     uint64_t list[COUNT][EMU_INSN_SOURCES])
{
    uint64_t *got = calloc(COUNT, sizeof *got);
    if (!got)
        abort();
    emu_insn_run_perturbed(insn, seed, COUNT, (const uint64_t(*)[EMU_INSN_SOURCES])list,
                           got);
    return got;
}

static int64_t steps(uint64_t a, uint64_t b)
{
    return (int64_t)(a > b ? a - b : b - a);
}

TEST(perturbed_results_are_a_unit_off)
{
    static uint64_t list[COUNT][EMU_INSN_SOURCES];
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct emu_insn insn = {rows[i].text, rows[i].types};
        bool half = rows[i].types[1] == 'h';
        make_operands(list, half);
        uint64_t *nearest = run(&insn, 0, list), *one = run(&insn, 5, list);
        uint64_t *again = run(&insn, 5, list), *other = run(&insn, 6, list);
        size_t up = 0, down = 0, same = 0, apart = 0;
        for (size_t k = 0; k < COUNT; k++) {
            if (steps(one[k], nearest[k]) > 1)
                test_fail(__FILE__, __LINE__, "%s: 0x%llx becomes 0x%llx", insn.text,
                          (unsigned long long)nearest[k], (unsigned long long)one[k]);
            up += one[k] > nearest[k];
            down += one[k] < nearest[k];
            same += one[k] == nearest[k];
            apart += one[k] != other[k];
        }
        CHECK(memcmp(one, again, COUNT * sizeof *one) == 0);
        CHECK(up > COUNT / 8 && down > COUNT / 8 && same > COUNT / 8);
        CHECK(apart > COUNT / 4);
        free(nearest);
        free(one);
        free(again);
        free(other);
    }
}

/* What the PTX ISA's tables fix, and what is not approximate. */
TEST(exact_results_stay)
{
    static const uint64_t special[] = {0,           0x80000000u, 1,
                                       0x807fffffu, 0x7f800000,  0xff800000u,
                                       0x7fffffffu, 0x7f7fffffu};
    static const struct {
        const char *text;
        uint32_t first; /* of zero */
    } exact[] = {
        {"rcp.approx.f32 %0, %1;", 0x7f800000},
        {"sqrt.approx.f32 %0, %1;", 0},
        {"ex2.approx.f32 %0, %1;", 0x3f800000},
        {"cos.approx.f32 %0, %1;", 0x3f800000},
        {"tanh.approx.f32 %0, %1;", 0},
        {"lg2.approx.f32 %0, %1;", 0xff800000u},
        {"rsqrt.approx.f32 %0, %1;", 0x7f800000},
    };
    for (size_t i = 0; i < COUNT_OF(exact); i++)
        for (uint64_t seed = 1; seed < 6; seed++) {
            uint64_t list[COUNT_OF(special)][EMU_INSN_SOURCES] = {{0}};
            uint64_t want[COUNT_OF(special)], got[COUNT_OF(special)];
            struct emu_insn insn = {exact[i].text, "rr"};
            for (size_t k = 0; k < COUNT_OF(special); k++)
                list[k][0] = special[k];
            emu_insn_run(&insn, COUNT_OF(special),
                         (const uint64_t(*)[EMU_INSN_SOURCES])list, want);
            emu_insn_run_perturbed(&insn, seed, COUNT_OF(special),
                                   (const uint64_t(*)[EMU_INSN_SOURCES])list, got);
            CHECK_EQ(want[0], exact[i].first);
            for (size_t k = 0; k + 1 < COUNT_OF(special); k++)
                CHECK_EQ(got[k], want[k]);
        }
}

TEST(correct_rounding_is_left_alone)
{
    static uint64_t list[COUNT][EMU_INSN_SOURCES];
    static const char *const texts[] = {"rcp.rn.f32 %0, %1;", "sqrt.rz.ftz.f32 %0, %1;",
                                        "div.rn.f32 %0, %1, %2;"};
    make_operands(list, false);
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct emu_insn insn = {texts[i], i == 2 ? "rrr" : "rr"};
        uint64_t *want = run(&insn, 0, list), *got = run(&insn, 5, list);
        CHECK(memcmp(want, got, COUNT * sizeof *want) == 0);
        free(want);
        free(got);
    }
}
