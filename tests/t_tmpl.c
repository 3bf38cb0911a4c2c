/* Templates: text in a directory of the test's own, expanded with a real plan. */
#include "gen/tmpl.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "gen/config.h"
#include "gen/job.h"
#include "gen/plan.h"
#include "tests/test.h"

struct fixture {
    struct arena *arena;
    struct diags *d;
    const struct plan *plan;
    char *text; /* NULL: refused */
    size_t bytes;
    struct line_map map;
};

static const char *dir(void)
{
    static const char *path;
    if (path)
        return path;
    path = test_tmp_path("t");
    CHECK(mkdir(path, 0777) == 0);
    struct arena *a = arena_new();
    CHECK(mkdir(arena_printf(a, "%s/lib", path), 0777) == 0);
    arena_free(a);
    return path;
}

static void write_template(const char *name, const char *text)
{
    struct arena *a = arena_new();
    CHECK(file_write(arena_printf(a, "%s/%s.ptxt", dir(), name), text, strlen(text)));
    arena_free(a);
    tmpl_use_dir(dir());
}

static struct fixture open_plan(void)
{
    struct fixture f = {.arena = arena_new()};
    f.d = diags_new(f.arena);
    const struct config *c = config_load(f.arena, NULL, NULL, 0, f.d);
    f.plan = plan_build(f.arena, c, f.d);
    CHECK(f.plan);
    return f;
}

static struct fixture expand_name(const char *name)
{
    struct fixture f = open_plan();
    f.text = tmpl_expand(f.arena, name, f.plan, &f.bytes, &f.map, f.d);
    CHECK((f.text != NULL) == (f.d->count == 0));
    return f;
}

static struct fixture expand(const char *text)
{
    write_template("x", text);
    return expand_name("x");
}

static void done(struct fixture *f)
{
    arena_free(f->arena);
}

static void check_text(const char *file, int at, const char *text, const char *expected)
{
    struct fixture f = expand(text);
    if (!f.text)
        test_fail(file, at, "%d:%d: %s", f.d->first->loc.line, f.d->first->loc.col,
                  f.d->first->text);
    if (strcmp(f.text, expected) != 0 || f.bytes != strlen(expected))
        test_fail(file, at, "got:\n%s\nnot:\n%s", f.text, expected);
    done(&f);
}

#define EXPANDS(text, expected) check_text(__FILE__, __LINE__, text, expected)

static void check_refused(const char *file, int at, const char *text, const char *code,
                          int line, int col, const char *words)
{
    struct fixture f = expand(text);
    const struct diag *g = f.d->first;
    if (!g)
        test_fail(file, at, "accepted: %s", f.text);
    if (strcmp(diag_code_name(g->code), code) != 0 || g->loc.line != line ||
        g->loc.col != col || !strstr(g->text, words) || f.d->count != 1)
        test_fail(file, at, "%s:%d:%d: %s [%s] (1 of %d)\nnot %d:%d: %s [%s]",
                  g->loc.file ? g->loc.file : "-", g->loc.line, g->loc.col, g->text,
                  diag_code_name(g->code), f.d->count, line, col, words, code);
    done(&f);
}

#define REFUSED(text, code, line, col, words)                                          \
    check_refused(__FILE__, __LINE__, text, code, line, col, words)

TEST(text_is_copied)
{
    EXPANDS("", "");
    EXPANDS("a\n", "a\n");
    EXPANDS("no newline", "no newline\n");
    EXPANDS("\n\n  x\n\n", "\n\n  x\n\n");
    EXPANDS("mov.u32 x, %tid.x; // \"quoted\" \\ back\n\ttab { } $ $x $1\n",
            "mov.u32 x, %tid.x; // \"quoted\" \\ back\n\ttab { } $ $x $1\n");
    EXPANDS("a\r\nb\r\n", "a\nb\n");
    EXPANDS("\x01\x7f \xc3\xa9\n", "\x01\x7f \xc3\xa9\n");
}

TEST(values_become_text)
{
    EXPANDS("${1}\n", "1\n");
    EXPANDS("[${-5}] ${'a'}${\"b\"} ${1 + 2 * 3}x\n", "[-5] ab 7x\n");
    EXPANDS("${8 / 2} ${2^10} ${-0.0}\n", "4 1024 0\n");
    EXPANDS("${math.mininteger} ${math.maxinteger}\n",
            "-9223372036854775808 9223372036854775807\n");
    EXPANDS("${hex(255)} ${hex(-1)} ${f32(1)} ${f32(-0.5)}\n",
            "0xff 0xffffffffffffffff 0f3F800000 0fBF000000\n");
    EXPANDS("${({4, 5})[2]} ${'}'} ${\"\\\"}\"} ${'${'}\n", "5 } \"} ${\n");
    EXPANDS("${('x'):rep(3)} ${(function() return 6, 7 end)()}\n", "xxx 6\n");
    EXPANDS("${'two\\nlines'}\nthird\n", "two\nlines\nthird\n");
    EXPANDS("${''}\n", "\n");
}

TEST(lua_lines_steer)
{
    EXPANDS("% for i = 0, 2 do\nv${i}\n% end\n", "v0\nv1\nv2\n");
    EXPANDS("% local on = p.stages > 100\n% if on then\nyes\n% else\nno\n% end\n",
            "no\n");
    EXPANDS("% -- a comment\n%\n%   \nx\n", "x\n");
    EXPANDS("% local function twice(a)\n  add ${a};\n  sub ${a};\n% end\n"
            "% twice('r')\n% twice('s')\n",
            "  add r;\n  sub r;\n  add s;\n  sub s;\n");
    EXPANDS("% function f() return 3 end\n% n = 4\n${f() + n}\n", "7\n");
    EXPANDS("% local t = {\n%   a = 1,\n% }\n${t.a}\n", "1\n");
}

TEST(the_plan_is_there)
{
    struct fixture f = expand("${p.kernel} ${p.stages} ${p.target} ${p.tile_n} "
                              "${p.outputs[1].format} ${p.full_bar} ${hex(p.ab_desc)} "
                              "${hex(p.idesc)} ${p.ptx_version} ${p.epilogue} "
                              "${tostring(p.scale_vec)}\n");
    CHECK(f.text);
    CHECK_STR(f.text, arena_printf(f.arena,
                                   "%s %d sm_100f 256 bf16 %u 0x%llx 0x%x 8.8 identity "
                                   "false\n",
                                   f.plan->kernel, f.plan->stages, f.plan->full_bar,
                                   (unsigned long long)f.plan->ab_desc, f.plan->idesc));
    done(&f);
}

TEST(the_plan_is_new_each_time)
{
    write_template("x", "${p.tile_n} ${p.stages}\n");
    struct fixture f = expand_name("x");
    CHECK_STR(f.text, "256 4\n");
    const struct config_override o[] = {{"tile.n", "64"}, {"stages", "3"}};
    const struct config *c = config_load(f.arena, NULL, o, 2, f.d);
    const struct plan *p = plan_build(f.arena, c, f.d);
    CHECK_STR(tmpl_expand(f.arena, "x", p, &f.bytes, &f.map, f.d), "64 3\n");
    CHECK_STR(tmpl_expand(f.arena, "x", f.plan, &f.bytes, &f.map, f.d), "256 4\n");
    done(&f);
}

TEST(globals_end_with_the_expansion)
{
    struct fixture f = expand("% g = 1\n${g}\n");
    CHECK_STR(f.text, "1\n");
    write_template("y", "${g}\n");
    char *text = tmpl_expand(f.arena, "y", f.plan, &f.bytes, &f.map, f.d);
    CHECK(!text);
    CHECK_DIAG(f.d, "tmpl-lua", 1);
    done(&f);
}

TEST(values_that_are_no_text)
{
    REFUSED("a\nb ${nil} c\n", "tmpl-lua", 2, 3, "${nil} is nil");
    REFUSED("a\n\nb ${1} ${7 / 2}\n", "tmpl-lua", 3, 8, "${7 / 2} is 3.5");
    REFUSED("${1/0}\n", "tmpl-lua", 1, 1, "${1/0} is inf");
    REFUSED("${0/0}\n", "tmpl-lua", 1, 1, "nan");
    REFUSED("${2^70}\n", "tmpl-lua", 1, 1, "not a whole number");
    REFUSED("${true}\n", "tmpl-lua", 1, 1, "${true} is a boolean");
    REFUSED("${{}}\n", "tmpl-lua", 1, 1, "is a table");
    REFUSED("${p}\n", "tmpl-lua", 1, 1, "${p} is a userdata");
    REFUSED("% for i = 1, 2 do\n%   local x\n v ${i}, ${x}\n% end\n", "tmpl-lua", 3, 10,
            "${x} is nil");
}

TEST(unknown_names)
{
    REFUSED("x\n ${p.stagse}\n", "tmpl-lua", 2, 0,
            "no field 'stagse'; did you mean 'stages'?");
    REFUSED("% local x = p.nothing_like_it\n", "tmpl-lua", 1, 0,
            "no field 'nothing_like_it'");
    REFUSED("% local x = p[1]\n", "tmpl-lua", 1, 0, "no field '1'");
    REFUSED("x\n${undefined}\n", "tmpl-lua", 2, 0, "variable 'undefined'");
    REFUSED("x\n% io.write('x')\n", "tmpl-lua", 2, 0, "no 'io'");
    REFUSED("\n% p.stages = 3\n", "tmpl-lua", 2, 0, "read-only: 'stages'");
    REFUSED("\n% p.new = 3\n", "tmpl-lua", 2, 0, "read-only: 'new'");
    REFUSED("\n\n% local t = nil\n% t.x = 1\n", "tmpl-lua", 4, 0, "index a nil value");
    REFUSED("\n% error('no such row')\n", "tmpl-lua", 2, 0, "no such row");
    REFUSED("\n% error({})\n", "tmpl-lua", 2, 0, "table value");
}

TEST(errors_of_syntax)
{
    REFUSED("a\nb ${x\n", "tmpl-unfinished", 2, 3, "${ without");
    REFUSED("a ${'}\n", "tmpl-unfinished", 1, 3, "${ without");
    REFUSED("a ${ { }\n", "tmpl-unfinished", 1, 3, "${ without");
    REFUSED("a\n${}\n", "tmpl-syntax", 2, 0, "unexpected symbol");
    REFUSED("a\n${1 +}\n", "tmpl-syntax", 2, 0, "unexpected symbol");
    REFUSED("a\n${x y}\n", "tmpl-syntax", 2, 0, "expected");
    REFUSED("% for i = 1, 2\nx\n% end\n", "tmpl-syntax", 2, 0, "'do' expected");
    REFUSED("a\n% end\n", "tmpl-syntax", 2, 0, "near 'end'");
    REFUSED("% if true then\nx\n\n", "tmpl-syntax", 3, 0, "at line 1 of ");
    REFUSED("% return\nx\n", "tmpl-syntax", 2, 0, "expected");
    struct fixture f = expand("${a\n\n${b\n");
    CHECK_EQ(f.d->count, 2);
    done(&f);
}

TEST(includes_are_spliced)
{
    write_template("lib/one", "% function one(a)\n  one ${a}\n% end\n");
    write_template("lib/two", "% include \"one\"\n// two\n");
    EXPANDS("top\n% include \"two\"\n% one(5)\nend\n", "top\n// two\n  one 5\nend\n");
    EXPANDS("%include 'two' -- why\n%  one(1)\n", "// two\n  one 1\n");
    EXPANDS("% include_this = 3\n${include_this}\n", "3\n");
    EXPANDS("% include = 4\n${include}\n", "4\n");
}

TEST(errors_inside_includes_point_there)
{
    write_template("lib/bad", "// line 1\n% function bad(a)\n  bad ${a}\n% end\n");
    struct fixture f = expand("top\n% include \"bad\"\nmiddle\n% bad(nil)\n");
    CHECK_DIAG(f.d, "tmpl-lua", 3);
    CHECK(strstr(f.d->first->loc.file, "/lib/bad.ptxt"));
    CHECK_EQ(f.d->first->loc.col, 7);
    done(&f);
    f = expand("top\n% include \"bad\"\nmiddle\n${nil}\n");
    CHECK_DIAG(f.d, "tmpl-lua", 4);
    CHECK(strstr(f.d->first->loc.file, "/x.ptxt"));
    done(&f);
    write_template("lib/open", "\n% if true then\n");
    f = expand("% include \"open\"\n\nx\n");
    CHECK_DIAG(f.d, "tmpl-syntax", 3);
    CHECK(strstr(f.d->first->text, "at line 2 of "));
    CHECK(strstr(f.d->first->text, "/lib/open.ptxt"));
    done(&f);
    write_template("lib/unfinished", "\n a ${\n");
    f = expand("% include \"unfinished\"\n");
    CHECK_DIAG(f.d, "tmpl-unfinished", 2);
    CHECK(strstr(f.d->first->loc.file, "/lib/unfinished.ptxt"));
    done(&f);
}

TEST(includes_that_do_not_work)
{
    REFUSED("a\n% include \"no_such_piece\"\n", "tmpl-missing", 2, 3,
            "'no_such_piece'");
    REFUSED("% include \"../x\"\n", "tmpl-include", 1, 3, "a name in quotes");
    REFUSED("% include text\n", "tmpl-include", 1, 3, "a name in quotes");
    REFUSED("% include \"text\n", "tmpl-include", 1, 3, "a name in quotes");
    REFUSED("% include \"text\" more\n", "tmpl-include", 1, 3, "a name in quotes");
    REFUSED("% include\n", "tmpl-include", 1, 3, "a name in quotes");
    write_template("lib/self", "\n% include \"self\"\n");
    struct fixture f = expand("% include \"self\"\n");
    CHECK_DIAG(f.d, "tmpl-include", 2);
    CHECK(strstr(f.d->first->text, "'self' includes itself"));
    done(&f);
    f = expand_name("no_such_template");
    CHECK_DIAG(f.d, "tmpl-missing", 0);
    done(&f);
}

TEST(templates_cannot_run_for_ever)
{
    REFUSED("x\n% while true do end\n", "tmpl-limit", 2, 0, "still running");
    REFUSED("x\n% while true do pcall(error) end\n", "tmpl-limit", 2, 0,
            "still running");
    REFUSED("% local s = 'x'\n% while true do s = s .. s end\n", "tmpl-limit", 2, 0,
            "string");
    REFUSED("% while true do\nx${('y'):rep(100000)}\n% end\n", "tmpl-lua", 2, 0,
            "the output grows");
    /* A state that died is replaced. */
    EXPANDS("fine\n", "fine\n");
}

TEST(line_map_names_the_template_line)
{
    write_template("lib/piece", "// in piece\n");
    struct fixture f = expand("a\n% for i = 1, 2 do\nb\n${'c\\nd'}\n% end\n"
                              "% include \"piece\"\ne\n");
    static const int lines[] = {1, 3, 4, 4, 3, 4, 4, 1, 7};
    CHECK_STR(f.text, "a\nb\nc\nd\nb\nc\nd\n// in piece\ne\n");
    CHECK_EQ(f.map.count, COUNT_OF(lines));
    for (int i = 0; i < f.map.count; i++)
        CHECK_EQ(f.map.lines[i], lines[i]);
    CHECK(strstr(f.map.files[0], "/x.ptxt"));
    CHECK(strstr(f.map.files[7], "/lib/piece.ptxt"));
    CHECK(strstr(f.map.files[8], "/x.ptxt"));
    done(&f);
}

TEST(built_in_templates_remain_beside_a_directory)
{
    write_template("x", "x\n");
    struct fixture f = expand_name("gemm_tcgen05");
    CHECK(f.text && strstr(f.text, "tcgen05.mma"));
    CHECK(strstr(tmpl_names(f.arena), "gemm_tcgen05"));
    CHECK(strstr(tmpl_names(f.arena), " x"));
    tmpl_use_dir(NULL);
    CHECK(!strstr(tmpl_names(f.arena), " x"));
    done(&f);
}

TEST(a_fault_of_the_ptx_points_at_the_template)
{
    write_template("x", ".version ${p.ptx_version}\n.target ${p.target}\n"
                        ".address_size 64\n% local op = 'addx'\n"
                        ".visible .entry ${p.kernel}()\n{\n  .reg .b32 a;\n"
                        "  ${op}.s32 a, a, 1;\n  ret;\n}\n");
    const struct config_override o = {"template", "x"};
    struct job_options options = {.overrides = &o, .override_count = 1, .check = true};
    struct job *j = job_run(&options);
    CHECK_EQ(j->diags->count, 1);
    const struct diag *g = j->diags->first;
    CHECK_EQ(g->loc.line, 8);
    CHECK(strstr(g->loc.file, "/x.ptxt"));
    CHECK(strstr(g->text, "addx"));
    CHECK(g->notes && strstr(g->notes->text, "of the PTX: addx.s32 a, a, 1;"));
    job_free(j);
    options.check = false;
    j = job_run(&options);
    CHECK_EQ(j->diags->count, 0);
    job_free(j);
}

enum { THREADS = 4, ROUNDS = 20 };

static void *expand_often(void *arg)
{
    const char *expected = arg;
    for (int i = 0; i < ROUNDS; i++) {
        struct fixture f = expand_name("gemm_tcgen05");
        if (!f.text || strcmp(f.text, expected) != 0)
            return arg;
        done(&f);
    }
    return NULL;
}

TEST(threads_expand_at_once)
{
    struct fixture f = expand_name("gemm_tcgen05");
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, expand_often, f.text) == 0);
    for (int i = 0; i < THREADS; i++) {
        void *bad;
        CHECK(pthread_join(threads[i], &bad) == 0);
        CHECK(!bad);
    }
    done(&f);
}
