/* What approximate instructions may do to an output, and no more (gen/run_slack.h). */
#include <math.h>
#include <string.h>

#include "core/fp4.h"
#include "gen/run_slack.h"
#include "tests/test.h"

enum { COLS = 32 };

static float acc[COLS];

static struct expr_row row_of(void)
{
    for (int i = 0; i < COLS; i++)
        acc[i] = (float)(i - 15) * 0.17f + 0.01f;
    return (struct expr_row){.cols = COLS, .m = 1, .n = COLS, .alpha = 1, .acc = acc};
}

static const struct expr_node *tanh_of_acc(struct expr *e)
{
    return expr_op1(e, EXPR_TANH_APPROX, expr_leaf(e, EXPR_ACC));
}

static void add(struct expr *e, enum expr_format format, const struct expr_node *value)
{
    struct expr_output o = {.format = format, .name = "y", .value = value};
    CHECK(expr_add_output(e, &o, NULL));
}

TEST(an_f32_may_be_off_by_its_bound)
{
    struct arena *a = arena_new();
    struct expr *e = expr_new(a);
    add(e, EXPR_OUT_F32, tanh_of_acc(e));
    CHECK(slack_is_small(e));
    struct expr_row r = row_of();
    const struct slack *s = slack_of(a, e, &r, 0);
    for (size_t i = 0; i < COLS; i++) {
        float y = (float)tanh((double)acc[i]);
        CHECK(slack_has_code(s, i, 0, bits_of_f32(y)));
        CHECK(slack_has_code(s, i, 0, bits_of_f32(y * (1 + 0x1p-11f))));
        CHECK(slack_has_code(s, i, 0, bits_of_f32(y * (1 - 0x1p-11f))));
        CHECK(!slack_has_code(s, i, 0, bits_of_f32(y * (1 + 0x1p-10f))));
        CHECK(!slack_has_code(s, i, 0, bits_of_f32(y * (1 - 0x1p-10f))));
        CHECK(!slack_has_code(s, i, 0, bits_of_f32(-y)));
    }
    arena_free(a);
}

TEST(nan_is_nan)
{
    struct arena *a = arena_new();
    struct expr *e = expr_new(a);
    add(e, EXPR_OUT_F32, tanh_of_acc(e));
    struct expr_row r = row_of();
    acc[3] = NAN;
    const struct slack *s = slack_of(a, e, &r, 0);
    CHECK(slack_has_code(s, 3, 0, 0x7fffffff));
    CHECK(slack_has_code(s, 3, 0, 0xffc00000));
    CHECK(!slack_has_code(s, 3, 0, 0x7f800000));
    CHECK(!slack_has_code(s, 3, 0, 0));
    arena_free(a);
}

/* 1 / (1 + 2^x): a smaller 2^x makes it larger; both instructions count. */
TEST(bounds_add_up)
{
    struct arena *a = arena_new();
    struct expr *e = expr_new(a);
    const struct expr_node *p = expr_op1(e, EXPR_EX2_APPROX, expr_leaf(e, EXPR_ACC));
    p = expr_op2(e, EXPR_ADD, p, expr_f32(e, 1));
    add(e, EXPR_OUT_F32, expr_op1(e, EXPR_RCP_APPROX, p));
    struct expr_row r = row_of();
    const struct slack *s = slack_of(a, e, &r, 0);
    for (size_t i = 0; i < COLS; i++) {
        double up = exp2((double)acc[i]), y = 1 / (1 + up);
        double most = y * (0x1p-22 * up / (1 + up) + 0x1p-23);
        CHECK(slack_has_code(s, i, 0, bits_of_f32((float)(y + most))));
        CHECK(slack_has_code(s, i, 0, bits_of_f32((float)(y - most))));
        CHECK(!slack_has_code(s, i, 0, bits_of_f32((float)(y + 8 * most))));
        CHECK(!slack_has_code(s, i, 0, bits_of_f32((float)(y - 8 * most))));
    }
    arena_free(a);
}

/* A block of MXFP4: the scale that belongs to its amax, and codes that belong to it. */
TEST(blocks_go_by_their_scale)
{
    struct arena *a = arena_new();
    struct expr *e = expr_new(a);
    add(e, EXPR_OUT_MXFP4, tanh_of_acc(e));
    struct expr_row r = row_of();
    struct expr_values want;
    const struct slack *s = slack_of(a, e, &r, 0);
    expr_eval(a, e, &r, &want);
    uint8_t scale = want.scales[0];
    CHECK(slack_has_scale(s, 0, scale));
    CHECK(!slack_has_scale(s, 0, (uint8_t)(scale + 1)));
    CHECK(!slack_has_scale(s, 0, (uint8_t)(scale - 1)));
    for (size_t i = 0; i < COLS; i++) {
        uint32_t code = want.codes[i];
        CHECK(slack_has_code(s, i, scale, code));
        CHECK(!slack_has_code(s, i, scale, code ^ 3));
    }
    arena_free(a);
}

TEST(steps_have_no_bound)
{
    struct arena *a = arena_new();
    struct expr *e = expr_new(a);
    add(e, EXPR_OUT_F32, expr_op1(e, EXPR_FLOOR, tanh_of_acc(e)));
    CHECK(!slack_is_small(e));
    e = expr_new(a); /* before it, they do no harm */
    add(e, EXPR_OUT_F32,
        expr_op1(e, EXPR_TANH_APPROX, expr_op1(e, EXPR_FLOOR, expr_leaf(e, EXPR_ACC))));
    CHECK(slack_is_small(e));
    arena_free(a);
}
