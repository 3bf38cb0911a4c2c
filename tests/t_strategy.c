/* t_strategy.c - FP4EMU_STRATEGY as a value and as text again. */
#include "emu/machine.h"
#include "emu/strategy.h"
#include "tests/test.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct rule rule;
static enum strategy strategy;
static char why[256];

static bool parse(const char *text)
{
    why[0] = '\0';
    return strategy_parse(text, &strategy, &rule, why, sizeof why);
}

TEST(forms_become_whole)
{
    static const struct {
        const char *text, *whole;
    } forms[] = {
        {"eager", "eager"},
        {"lazy", "lazy"},
        {"reverse", "reverse"},
        {"random", "random:0.300000"},
        {"random:1", "random:1.000000"},
        {"random:1.0", "random:1.000000"},
        {"random:.25", "random:0.250000"},
        {"random:0.000001", "random:0.000001"},
        {"pct", "pct:3:4096"},
        {"pct:1", "pct:1:4096"},
        {"pct:64:1073741824", "pct:64:1073741824"},
        {"starve:0", "starve:0"},
        {"starve:3-3", "starve:3"},
        {"starve:4-31", "starve:4-31"},
        {"starve:LOAD_1", "starve:LOAD_1"},
        {"delay:mma", "delay:mma:1"},
        {"delay:tma_load:7", "delay:tma_load:7"},
        {"delay:tma_store:1", "delay:tma_store:1"},
        {"delay:tc_cp", "delay:tc_cp:1"},
        {"delay:commit", "delay:commit:1"},
        {"delay:cp_async:4294967295", "delay:cp_async:4294967295"},
        {"delay:wgmma", "delay:wgmma:1"},
    };
    for (size_t i = 0; i < COUNT_OF(forms); i++) {
        char text[STRATEGY_MAX_TEXT];
        if (!parse(forms[i].text))
            test_fail(__FILE__, __LINE__, "%s: %s", forms[i].text, why);
        CHECK_STR(strategy_text(strategy, &rule, text, sizeof text), forms[i].whole);
        /* What a report prints must mean the same again. */
        enum strategy first = strategy;
        struct rule before = rule;
        CHECK(parse(text));
        CHECK_EQ(strategy, first);
        CHECK(memcmp(&before, &rule, sizeof rule) == 0);
    }
}

TEST(parts_of_forms)
{
    CHECK(parse("random:0.125"));
    CHECK_EQ(rule.share, 125000);
    CHECK(parse("pct:5:100"));
    CHECK_EQ(rule.changes, 5);
    CHECK_EQ(rule.span, 100);
    CHECK(parse("starve:2-5"));
    CHECK_EQ(rule.first, 2);
    CHECK_EQ(rule.last, 5);
    CHECK(parse("starve:MMA"));
    CHECK(rule.last < rule.first);
    CHECK_STR(rule.name, "MMA");
    CHECK(parse("delay:commit:9"));
    CHECK_EQ(rule.op, ASYNC_COMMIT);
    CHECK_EQ(rule.number, 9);
}

TEST(what_is_no_strategy)
{
    static const char *const bad[] = {
        "",
        "fast",
        "eage",
        "eager:1",
        "lazy:",
        "random:",
        "random:0",
        "random:1.1",
        "random:2",
        "random:0.3x",
        "random:-1",
        "random:0,5",
        "pct:",
        "pct:0",
        "pct:65",
        "pct:3:",
        "pct:3:0",
        "pct:3:1:1",
        "pct:x",
        "pct:3:1073741825",
        "starve",
        "starve:",
        "starve:32",
        "starve:5-4",
        "starve:1-32",
        "starve:1-",
        "delay",
        "delay:",
        "delay:store",
        "delay:mma:0",
        "delay:mma:",
        "delay:mma:x",
        "delay:mma:4294967296",
        "replay",
        "replay:",
        "replay:/no/such/file",
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        if (parse(bad[i]))
            test_fail(__FILE__, __LINE__, "\"%s\" is taken", bad[i]);
    CHECK(!parse("replay:/no/such/file") && strstr(why, "No such file"));
    CHECK(!parse("pct:99") && strstr(why, "depth of 1 to 64"));
}

TEST(a_replay_of_something_else_is_refused)
{
    char text[512];
    const char *path = test_tmp_path("schedule.txt");
    FILE *f = fopen(path, "w");
    CHECK(f != NULL);
    fputs("launch 0 k\n0 w1 2.0 -> w2  # line 7\n", f);
    CHECK_EQ(fclose(f), 0);
    snprintf(text, sizeof text, "replay:%s", path);
    CHECK(parse(text));
    f = fopen(path, "a");
    CHECK(f != NULL);
    fputs("this is not a schedule\n", f);
    CHECK_EQ(fclose(f), 0);
    CHECK(!parse(text) && strstr(why, "schedule.txt:3: not a line of a schedule"));
}

TEST(long_texts_are_refused_not_cut)
{
    char text[STRATEGY_MAX_TEXT + 200];
    memset(text, 'x', sizeof text);
    memcpy(text, "starve:", 7);
    text[200] = '\0';
    CHECK(!parse(text));
    memcpy(text, "replay:", 7);
    text[200] = 'x';
    text[sizeof text - 1] = '\0';
    CHECK(!parse(text));
}
