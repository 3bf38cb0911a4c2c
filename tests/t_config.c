/* Configs: what is accepted, and where a refusal points. */
#include "gen/config.h"

#include <stdio.h>
#include <string.h>

#include "tests/test.h"

struct fixture {
    struct arena *arena;
    struct diags *d;
    struct config *config;
};

static struct fixture load_with(const char *text, const struct config_override *o,
                                int count)
{
    struct fixture f = {.arena = arena_new()};
    f.d = diags_new(f.arena);
    const char *path = NULL;
    if (text) {
        static const char *tmp;
        path = tmp = tmp ? tmp : test_tmp_path("test.lua");
        CHECK(file_write(path, text, strlen(text)));
    }
    f.config = config_load(f.arena, path, o, count, f.d);
    CHECK((f.config != NULL) == (f.d->count == 0));
    return f;
}

static struct fixture load(const char *text)
{
    return load_with(text, NULL, 0);
}

static struct fixture load_set(const char *text, const char *field, const char *value)
{
    const struct config_override o = {field, value};
    return load_with(text, &o, 1);
}

static void done(struct fixture *f)
{
    arena_free(f->arena);
}

static const char *first_text(const struct fixture *f)
{
    return f->d->first ? f->d->first->text : "";
}

/* The config is refused with this code at line:col, alone, and `words` in its text. */
static void check_refused(const char *file, int at, struct fixture f, const char *code,
                          int line, int col, const char *words)
{
    const struct diag *g = f.d->first;
    if (!g)
        test_fail(file, at, "accepted");
    if (strcmp(diag_code_name(g->code), code) != 0 || g->loc.line != line ||
        g->loc.col != col || !strstr(g->text, words) || f.d->count != 1)
        test_fail(file, at, "%d:%d: %s [%s] (1 of %d)\nnot %d:%d: %s [%s]", g->loc.line,
                  g->loc.col, g->text, diag_code_name(g->code), f.d->count, line, col,
                  words, code);
    done(&f);
}

#define REFUSED(text, code, line, col, words)                                          \
    check_refused(__FILE__, __LINE__, load(text), code, line, col, words)
#define REFUSED_SET(text, field, value, code, line, words)                             \
    check_refused(__FILE__, __LINE__, load_set(text, field, value), code, line, 0,     \
                  words)

static void check_accepted(const char *file, int at, struct fixture f)
{
    if (!f.config)
        test_fail(file, at, "refused: %s", first_text(&f));
    done(&f);
}

#define ACCEPTED(text) check_accepted(__FILE__, __LINE__, load(text))

static bool has_note(const struct fixture *f, const char *words)
{
    for (const struct diag *g = f->d->first; g; g = g->next)
        for (const struct diag_note *n = g->notes; n; n = n->next)
            if (strstr(n->text, words))
                return true;
    return false;
}

TEST(defaults_are_complete)
{
    struct fixture f = load(NULL);
    const struct config *c = f.config;
    CHECK(c);
    CHECK_STR(c->name, "nvfp4_gemm");
    CHECK_STR(c->target->name, "sm_100f");
    CHECK_EQ(c->tile_m, 128);
    CHECK_EQ(c->tile_n, 256);
    CHECK_EQ(c->tile_k, 256);
    CHECK_EQ(c->stages, STAGES_AUTO);
    CHECK_EQ(c->d_type, D_BF16);
    CHECK_STR(c->epilogue, "identity");
    CHECK_STR(c->template_name, "gemm_tcgen05");
    CHECK(!c->scale_vec);
    CHECK_EQ(c->group_m, 8);
    done(&f);
}

TEST(built_in_config_says_the_defaults)
{
    struct fixture f = load(NULL);
    struct arena *a = arena_new();
    struct diags *d = diags_new(a);
    struct config *c = config_load(a, "nvfp4_gemm", NULL, 0, d);
    CHECK(c);
    CHECK(c->hash == f.config->hash);
    CHECK_STR(c->file, "configs/nvfp4_gemm.lua");
    CHECK_EQ(config_loc(c, "stages").line > 0, true);
    c = config_load(a, "configs/nvfp4_gemm.lua", NULL, 0, d);
    CHECK(c && c->hash == f.config->hash);
    arena_free(a);
    done(&f);
}

TEST(unknown_built_in_config)
{
    struct arena *a = arena_new();
    struct diags *d = diags_new(a);
    CHECK(!config_load(a, "nvfp5", NULL, 0, d));
    CHECK_DIAG(d, "config-builtin", 0);
    arena_free(a);
}

TEST(every_field_is_read)
{
    struct fixture f =
        load("local n = 64\n"
             "gemm {\n"
             "  name = 'my_kernel', target = \"sm_103a\",\n"
             "  a = { type = 'e2m1', scale = 'ue4m3', block = 16, major = 'k' },\n"
             "  b = { type = 'e2m1', scale = 'ue4m3', block = 8 * 2, major = 'k' },\n"
             "  d = { type = 'f32', major = 'n' },\n"
             "  tile = { m = 128, n = 3 * n, k = 256 / 2 };\n"
             "  stages = 3, warps = { load = 1, mma = 1, epilogue = 4 },\n"
             "  epilogue = 'identity', template = 'gemm_tcgen05',\n"
             "  scale_vec = true, group_m = 16,\n"
             "}\n");
    const struct config *c = f.config;
    CHECK_STR(first_text(&f), "");
    CHECK_STR(c->name, "my_kernel");
    CHECK_STR(c->target->name, "sm_103a");
    CHECK_EQ(c->d_type, D_F32);
    CHECK_EQ(c->tile_n, 192);
    CHECK_EQ(c->tile_k, 128);
    CHECK_EQ(c->stages, 3);
    CHECK(c->scale_vec);
    CHECK_EQ(c->group_m, 16);
    done(&f);
}

TEST(hash_follows_what_changes_the_kernel)
{
    struct fixture a = load("gemm {}"),
                   b = load("-- other text\ngemm { stages = 'auto' }"),
                   c = load("gemm { stages = 2 }"), d = load("gemm { name = 'other' }");
    CHECK(a.config->hash == b.config->hash);
    CHECK(a.config->hash != c.config->hash);
    CHECK(a.config->hash != d.config->hash);
    done(&a);
    done(&b);
    done(&c);
    done(&d);
}

TEST(values_are_pointed_at)
{
    struct fixture f = load("-- gemm { stages = 1 }\n"
                            "local s = 'gemm { stages = 1 }'\n"
                            "gemm {\n"
                            "  stages   = 4,\n"
                            "  --[[ tile = 1,\n  ]] tile = { m = 128,\n"
                            "    n = 64, -- k = 3\n"
                            "    [\"k\"] = 128 },\n"
                            "\td = { type = 'f32' },\n"
                            "}\n");
    const struct config *c = f.config;
    CHECK_STR(first_text(&f), "");
    CHECK_EQ(config_loc(c, "stages").line, 4);
    CHECK_EQ(config_loc(c, "stages").col, 14);
    CHECK_EQ(config_loc(c, "tile").line, 6);
    CHECK_EQ(config_loc(c, "tile").col, 13);
    CHECK_EQ(config_loc(c, "tile.n").line, 7);
    CHECK_EQ(config_loc(c, "tile.n").col, 9);
    CHECK_EQ(config_loc(c, "tile.k").line, 8);
    CHECK_EQ(config_loc(c, "tile.k").col, 13);
    CHECK_EQ(config_loc(c, "d.type").line, 9);
    CHECK_EQ(config_loc(c, "d.type").col, 15);
    /* Not set: the constructor. */
    CHECK_EQ(config_loc(c, "target").line, 3);
    CHECK_EQ(config_loc(c, "target").col, 1);
    CHECK_STR(config_loc(c, "target").file, c->file);
    CHECK_EQ(config_loc(c, "no such field").line, 3);
    done(&f);
}

TEST(commas_inside_functions_and_calls_are_no_fields)
{
    struct fixture f = load("local function pick(a, b) return b end\n"
                            "gemm {\n"
                            "  group_m = pick(1, 2), stages = (function()\n"
                            "    local target, d = 1, 2\n"
                            "    if target == 1 then target = 3 end\n"
                            "    for i = 1, 2 do d = 5 end\n"
                            "    repeat d = 6 until true\n"
                            "    return 2, 3\n"
                            "  end)(), name = [==[a]==],\n"
                            "}\n");
    CHECK_STR(first_text(&f), "");
    CHECK_EQ(f.config->stages, 2);
    CHECK_EQ(f.config->group_m, 2);
    CHECK_EQ(config_loc(f.config, "target").line, 2);
    CHECK_EQ(config_loc(f.config, "d").line, 2);
    CHECK_EQ(config_loc(f.config, "name").line, 9);
    CHECK_EQ(config_loc(f.config, "name").col, 18);
    done(&f);
}

TEST(tables_that_stand_elsewhere_point_at_their_use)
{
    struct fixture f = load("local t = { m = 128, n = 64 }\ngemm {\n  tile = t,\n}\n");
    CHECK_EQ(config_loc(f.config, "tile.n").line, 3);
    CHECK_EQ(config_loc(f.config, "tile.n").col, 10);
    done(&f);
    f = load("local t = { stages = 2 }\n\ngemm(t)\n");
    CHECK_EQ(f.config->stages, 2);
    CHECK_EQ(config_loc(f.config, "stages").line, 3);
    CHECK_EQ(config_loc(f.config, "stages").col, 1);
    done(&f);
    /* A tail call has no line in Lua; the text has. */
    f = load("\nreturn gemm { stages = 2 }\n");
    CHECK_EQ(config_loc(f.config, "stages").line, 2);
    CHECK_EQ(config_loc(f.config, "stages").col, 24);
    done(&f);
}

TEST(overrides_win_and_are_to_blame)
{
    struct fixture f =
        load_set("gemm { stages = 2, tile = { n = 64 } }", "stages", "3");
    CHECK_EQ(f.config->stages, 3);
    CHECK_EQ(f.config->tile_n, 64);
    CHECK_STR(config_loc(f.config, "stages").file, "command line");
    CHECK_EQ(config_loc(f.config, "tile.n").line, 1);
    done(&f);
    f = load_set(NULL, "tile.n", "128");
    CHECK_EQ(f.config->tile_n, 128);
    CHECK_STR(config_loc(f.config, "tile.n").file, "command line");
    CHECK_STR(config_loc(f.config, "tile").file, "command line");
    CHECK_STR(config_loc(f.config, "stages").file, "<command line>");
    done(&f);
    /* The file's own value is wrong, but nobody uses it. */
    f = load_set("gemm { stages = 99 }", "stages", "auto");
    CHECK_EQ(f.config->stages, STAGES_AUTO);
    done(&f);
    const struct config_override twice[] = {{"stages", "99"}, {"stages", "4"}};
    f = load_with(NULL, twice, 2);
    CHECK_EQ(f.config->stages, 4);
    done(&f);
    const struct config_override all[] = {{"scale_vec", "true"},
                                          {"target", "sm_100a"},
                                          {"d.type", "f32"},
                                          {"name", "x1"}};
    f = load_with(NULL, all, 4);
    CHECK(f.config->scale_vec && f.config->d_type == D_F32);
    CHECK_STR(f.config->name, "x1");
    done(&f);
}

TEST(values_that_are_not_allowed)
{
    REFUSED("gemm {\n  tile = { m = 128, n = 96, k = 256 },\n}", "field-value", 2, 25,
            "tile.n = 96 is not allowed; allowed: 64, 128, 192 or 256");
    REFUSED("gemm {\n  tile = { m = 256 },\n}", "field-value", 2, 16, "allowed: 128");
    REFUSED("gemm {\n  tile = { k = 64 },\n}", "field-value", 2, 16, "128 or 256");
    REFUSED("gemm { stages = 1 }", "field-value", 1, 17, "auto or 2 to 32");
    REFUSED("gemm { stages = 33 }", "field-value", 1, 17, "stages = 33");
    REFUSED("gemm { stages = 'many' }", "field-type", 1, 17, "not \"many\"");
    REFUSED("gemm { d = { type = 'f16' } }", "field-value", 1, 21, "\"f16\"");
    REFUSED("gemm { a = { type = 'e4m3' } }", "field-value", 1, 21, "allowed: e2m1");
    REFUSED("gemm { a = { scale = 'ue8m0' } }", "field-value", 1, 22, "allowed: ue4m3");
    REFUSED("gemm { b = { block = 32 } }", "field-value", 1, 22, "allowed: 16");
    REFUSED("gemm { b = { major = 'n' } }", "field-value", 1, 22, "allowed: k");
    REFUSED("gemm { d = { major = 'm' } }", "field-value", 1, 22, "allowed: n");
    REFUSED("gemm { warps = { epilogue = 8 } }", "field-value", 1, 29, "allowed: 4");
    REFUSED("gemm { epilogue = 'swish' }", "epilogue-name", 1, 19, "identity");
    REFUSED("gemm { template = 'gem' }", "field-value", 1, 19, "gemm_tcgen05");
    REFUSED("gemm { template = '../x' }", "field-value", 1, 19, "gemm_tcgen05");
    REFUSED("gemm { group_m = 0 }", "field-value", 1, 18, "1 to 1024");
    REFUSED("gemm { name = 'a b' }", "field-value", 1, 15, "a letter, then");
    REFUSED("gemm { name = '1a' }", "field-value", 1, 15, "a letter, then");
    REFUSED("gemm { name = ('a'):rep(64) }", "field-value", 1, 15, "63 at most");
    REFUSED("gemm { target = 'sm_99' }", "field-value", 1, 17,
            "sm_100a, sm_100f, sm_103a or sm_103f");
    struct fixture f = load("gemm { tile = { n = 96 } }");
    CHECK(has_note(&f, "scale columns may start only at multiples of 64 rows"));
    done(&f);
}

TEST(values_of_the_wrong_type)
{
    REFUSED("gemm { stages = true }", "field-type", 1, 17,
            "stages must be \"auto\" or a whole number, not true");
    REFUSED("gemm { stages = 2.5 }", "field-type", 1, 17, "not 2.5");
    REFUSED("gemm { stages = '3' }", "field-type", 1, 17, "not \"3\"");
    REFUSED("gemm { tile = { n = 0/0 } }", "field-type", 1, 21, "a whole number, not");
    REFUSED("gemm { tile = { n = 1e300 } }", "field-type", 1, 21, "not 1e+300");
    REFUSED("gemm { tile = { n = {} } }", "field-type", 1, 21, "not a table");
    REFUSED("gemm { tile = 128 }", "field-type", 1, 15,
            "tile must be a table, not 128");
    REFUSED("gemm { target = 100 }", "field-type", 1, 17, "a string, not 100");
    REFUSED("gemm { scale_vec = 1 }", "field-type", 1, 20, "true or false, not 1");
    REFUSED("gemm { epilogue = 7 }", "field-type", 1, 19,
            "a name or a function, not 7");
    REFUSED("gemm {\n epilogue = function(e)\n  return e\n end }", "epilogue", 2, 0,
            "the epilogue returns nothing");
    REFUSED("gemm { name = 'a\\0b' }", "field-type", 1, 15, "not \"a?b\"");
    ACCEPTED("gemm { stages = 4.0 }");
    REFUSED_SET("gemm {}", "stages", "x", "field-type", 0, "not x");
    REFUSED_SET("gemm {}", "stages", "", "field-type", 0, "");
    REFUSED_SET("gemm {}", "stages", " 3", "field-type", 0, "");
    REFUSED_SET("gemm {}", "stages", "3.0", "field-type", 0, "");
    REFUSED_SET("gemm {}", "stages", "99999999999999999999", "field-type", 0, "");
    REFUSED_SET("gemm {}", "scale_vec", "yes", "field-type", 0, "true or false");
    REFUSED_SET("gemm {}", "tile", "3", "field-type", 0, "a table");
}

TEST(targets_without_tcgen05)
{
    REFUSED("gemm {\n target = 'sm_90a' }", "target-tcgen05", 2, 11,
            "sm_90a has no tcgen05");
    REFUSED("gemm { target = 'sm_120f' }", "target-tcgen05", 1, 17, "sm_100f");
    REFUSED_SET(NULL, "target", "sm_80", "target-tcgen05", 0, "sm_80");
    struct fixture f = load("gemm { target = 'sm_100' }");
    CHECK_DIAG(f.d, "target-tcgen05", 1);
    CHECK(has_note(&f, "sm_100f or sm_100a"));
    done(&f);
}

TEST(scale_vec_needs_an_architecture_target)
{
    REFUSED("gemm {\n  scale_vec = true }", "target-scale-vec", 2, 15, "not sm_100f");
    ACCEPTED("gemm { scale_vec = true, target = 'sm_103a' }");
    check_refused(
        __FILE__, __LINE__,
        load_set("gemm { scale_vec = true, target = 'sm_100a' }", "target", "sm_103f"),
        "target-scale-vec", 1, 20, "not sm_103f");
}

TEST(unknown_fields_are_named_and_near_ones_suggested)
{
    REFUSED("gemm {\n  stagse = 3,\n}", "field-unknown", 2, 12, "no field 'stagse'");
    REFUSED("gemm { tile = { q = 3 } }", "field-unknown", 1, 21, "'tile.q'");
    REFUSED("gemm { [\"tile.n\"] = 64 }", "field-unknown", 1, 1, "tile.n");
    REFUSED("gemm { kk = { x = 1, y = 2 } }", "field-unknown", 1, 13, "'kk'");
    static const struct {
        const char *text, *note;
    } rows[] = {
        {"gemm { stagse = 3 }", "did you mean 'stages'?"},
        {"gemm { Target = 'x' }", "did you mean 'target'?"},
        {"gemm { n = 64 }", "did you mean 'tile.n'?"},
        {"gemm { tiles = { n = 64 } }", "did you mean 'tile', a table?"},
        {"gemm { tile = { N = 64 } }", "did you mean 'tile.n'?"},
        {"gemm { ['d-type'] = 'f32' }", "did you mean 'd.type'?"},
        {"gemm { cluster = 2 }", "the fields are: name target a.type"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct fixture f = load(rows[i].text);
        CHECK_DIAG(f.d, "field-unknown", 1);
        if (!has_note(&f, rows[i].note))
            test_fail(__FILE__, __LINE__, "%s: no note '%s'", rows[i].text,
                      rows[i].note);
        done(&f);
    }
    REFUSED_SET(NULL, "stagse", "3", "field-unknown", 0, "stagse");
}

TEST(values_without_a_name)
{
    REFUSED("gemm { 'nvfp4' }", "field-unnamed", 1, 1, "gemm { ... } holds \"nvfp4\"");
    REFUSED("gemm { tile = { 128 } }", "field-unnamed", 1, 15,
            "tile { ... } holds 128");
    REFUSED("gemm { [true] = 1 }", "field-unnamed", 1, 1, "holds 1");
}

TEST(fields_set_twice)
{
    REFUSED("gemm {\n stages = 2,\n stages = 3 }", "field-twice", 3, 11, "'stages'");
    REFUSED("gemm { tile = { n = 64, n = 128 } }", "field-twice", 1, 29, "'tile.n'");
}

TEST(all_errors_are_told_in_order)
{
    struct fixture f = load("gemm {\n  stages = 64,\n  tile = { n = 1, m = 2 },\n"
                            "  nmae = 'x',\n}\n");
    CHECK_EQ(f.d->count, 4);
    int line = 0;
    for (const struct diag *g = f.d->first; g; g = g->next) {
        CHECK(g->loc.line >= line);
        line = g->loc.line;
    }
    CHECK_DIAG(f.d, "field-value", 2);
    CHECK_DIAG(f.d, "field-value", 3);
    CHECK_DIAG(f.d, "field-unknown", 4);
    done(&f);
}

TEST(gemm_is_called_once_with_a_table)
{
    REFUSED("local x = 1\n", "config-no-gemm", 0, 0, "never calls");
    REFUSED("", "config-no-gemm", 0, 0, "never calls");
    REFUSED("gemm {}\n\ngemm {}\n", "config-two-gemms", 3, 0, "again");
    REFUSED("\ngemm(5)\n", "config-gemm-arg", 2, 1, "not 5");
    REFUSED("\ngemm()\n", "config-gemm-arg", 2, 1, "not nothing");
    REFUSED("gemm 'x'", "config-gemm-arg", 1, 1, "not \"x\"");
    REFUSED("gemm({}, 1)", "config-gemm-arg", 1, 1, "not 2 values");
    REFUSED("gemm(nil)", "config-gemm-arg", 1, 1, "not a nil");
    struct fixture f = load("gemm {}\n gemm {}\n");
    CHECK_EQ(f.d->first->notes->loc.line, 1);
    done(&f);
}

TEST(scripts_that_fail)
{
    REFUSED("gemm {\n  stages = = 3\n}", "config-syntax", 2, 0, "unexpected symbol");
    REFUSED("gemm {\n  tile = { n = 64 \n", "config-syntax", 3, 0, "'}' expected");
    REFUSED("\033Lua", "config-syntax", 1, 0, "binary");
    REFUSED("gemm {\n  target = sm_100f,\n}", "config-lua", 2, 0,
            "'sm_100f' is not defined (a text stands in quotes)");
    REFUSED("\nlocal x = nil + 1\n", "config-lua", 2, 0, "arithmetic");
    REFUSED("\nio.write('x')\n", "config-lua", 2, 0, "no 'io'");
    REFUSED("\nwhile true do end\n", "config-work", 2, 0, "still running");
    REFUSED("\nlocal s = 'x' while true do s = s .. s end\n", "config-memory", 2, 0,
            "string");
    REFUSED("gemm {}\nerror { 1 }", "config-lua", 2, 0, "table value");
    /* A gemm inside pcall counts, and what fails afterwards too. */
    ACCEPTED("pcall(gemm, { stages = 2 })");
}

TEST(files_that_cannot_be_read)
{
    struct arena *a = arena_new();
    struct diags *d = diags_new(a);
    CHECK(!config_load(a, "./no/such/file.lua", NULL, 0, d));
    CHECK_DIAG(d, "config-read", 0);
    CHECK_STR(d->first->loc.file, "./no/such/file.lua");
    d = diags_new(a);
    CHECK(!config_load(a, "/", NULL, 0, d));
    CHECK_DIAG(d, "config-read", 0);
    struct buf big;
    buf_init(&big, a);
    while (big.bytes <= 65536)
        buf_puts(&big, "-- a comment that is much too long\n");
    struct fixture f = load(big.data);
    CHECK_DIAG(f.d, "config-size", 0);
    done(&f);
    arena_free(a);
}

TEST(the_issue_example_points_at_its_value)
{
    struct fixture f = load("gemm {\n  stages   = 99,\n}\n");
    struct buf text;
    buf_init(&text, f.arena);
    diag_format(f.d->first, "gemm {\n  stages   = 99,\n}\n", &text);
    CHECK(strstr(text.data, "test.lua:2:14: error: stages = 99"));
    CHECK(strstr(text.data, "    2 |   stages   = 99,\n      |              ^\n"));
    done(&f);
}

TEST(schema_rows_name_their_words)
{
    struct arena *a = arena_new();
    const struct config_field *f;
    int rows = 0, tiles = 0;
    for (; (f = config_field_at(a, rows)); rows++) {
        CHECK(*f->path && *f->meaning && *f->allowed && *f->fallback);
        tiles +=
            strcmp(f->path, "tile.n") == 0 && strcmp(f->words, "64 128 192 256") == 0;
    }
    CHECK(rows > 20);
    CHECK_EQ(tiles, 1);
    CHECK(!config_field_at(a, -1));
    arena_free(a);
}
