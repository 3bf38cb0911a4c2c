/* Scripts that try to run for ever, to take all memory, or to get out. */
#include "gen/lua.h"

#include <lauxlib.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tests/test.h"

static const struct sandbox_limits small = {
    .memory_bytes = 4 << 20,
    .block_bytes = 64 << 10,
    .string_bytes = 16 << 10,
    .work = 2000000,
    .cpu_ms = 500,
};

/* Of this process alone: what else the machine does is not the script's fault. */
static double processor_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool run(struct arena *a, const char *script, struct sandbox_fault *fault)
{
    struct sandbox *s = sandbox_open(&small);
    *fault = (struct sandbox_fault){0};
    bool ok = sandbox_load(s, a, script, strlen(script), fault) &&
              sandbox_call(s, a, 0, 0, fault);
    sandbox_close(s);
    return ok;
}

/* The script must end within some seconds of work with this kind of fault, at this
 * line, and a text in which `words` occurs. */
static void must_fail(const char *file, int at, const char *script,
                      enum sandbox_fault_kind kind, int line, const char *words)
{
    struct arena *a = arena_new();
    struct sandbox_fault f;
    double start = processor_seconds();
    bool ok = run(a, script, &f);
    double seconds = processor_seconds() - start;
    if (ok)
        test_fail(file, at, "the script ended well: %s", script);
    if (f.kind != kind || f.line != line || !strstr(f.text, words))
        test_fail(file, at, "fault %d at line %d: %s\nnot %d at %d: %s\n%s",
                  (int)f.kind, f.line, f.text, (int)kind, line, words, script);
    if (seconds > 5) /* the limit is half a second; sanitizers are slow */
        test_fail(file, at, "took %.2f s: %s", seconds, script);
    arena_free(a);
}

#define MUST_FAIL(script, kind, line, words)                                           \
    must_fail(__FILE__, __LINE__, script, SANDBOX_##kind, line, words)

static void must_work(const char *file, int at, const char *script)
{
    struct arena *a = arena_new();
    struct sandbox_fault f;
    if (!run(a, script, &f))
        test_fail(file, at, "line %d: %s\n%s", f.line, f.text, script);
    arena_free(a);
}

#define MUST_WORK(script) must_work(__FILE__, __LINE__, script)

TEST(ordinary_scripts_run)
{
    MUST_WORK(
        "local t = {}\n"
        "for i = 1, 100 do t[#t + 1] = ('%d'):format(i) end\n"
        "table.sort(t, function(a, b) return tonumber(a) > tonumber(b) end)\n"
        "assert(table.concat(t, ',', 1, 3) == '100,99,98')\n"
        "assert(('ab'):rep(3, '-') == 'ab-ab-ab')\n"
        "assert(('x'):rep(0) == '' and ('x'):rep(-5) == '' and (''):rep(9) == '')\n"
        "assert(math.max(1, 2.5) == 2.5 and math.pi > 3 and math.huge > 1)\n"
        "assert(select('#', table.unpack({1, 2, 3})) == 3)\n"
        "x = 5; assert(x == 5)\n"
        "for k, v in pairs({a = 1}) do assert(k == 'a' and v == 1) end\n"
        "for i, v in ipairs({7}) do assert(i == 1 and v == 7) end\n"
        "assert(next({}) == nil and type(next) == 'function')\n");
    MUST_WORK("local ok, e = pcall(error, 'x', 0); assert(not ok and e == 'x')\n"
              "local r = table.pack(pcall(function(...) return ... end, 1, nil, 3))\n"
              "assert(r.n == 4 and r[1] == true and r[2] == 1 and r[4] == 3)\n"
              "local ok, e = pcall(error, {k = 1}); assert(e.k == 1)\n"
              "local ok, e = xpcall(error, function(m) return m .. '!' end, 'y', 0)\n"
              "assert(not ok and e == 'y!')\n"
              "local ok, a, b = xpcall(function(p, q) return q, p end,\n"
              " function() end, 1, 2)\n"
              "assert(ok and a == 2 and b == 1)\n");
}

TEST(pairs_has_an_order)
{
    MUST_WORK(
        "local t = {z = 1, [2] = 2, b = 3, [1] = 4, a = 5, [-1.5] = 6, [true] = 7}\n"
        "local s = ''\n"
        "for k, v in pairs(t) do s = s .. tostring(k) .. '=' .. v .. ' ' end\n"
        "assert(s == '-1.5=6 1=4 2=2 a=5 b=3 z=1 true=7 ', s)\n"
        "for k in pairs(t) do t[k] = nil; t.b = nil end\n"
        "assert(next(t) == nil)\n"
        "for n = 0, 40 do\n"
        "  local t, last, count = {}, 0, 0\n"
        "  for i = 1, n do t[i * 37 % 101 + 1.5] = i end\n"
        "  for k in pairs(t) do assert(k > last); last = k; count = count + 1 end\n"
        "  assert(count == n)\n"
        "end\n");
    MUST_FAIL("\nfor k in pairs(5) do end", ERROR, 2, "table expected");
    MUST_FAIL("local t = {}\nfor i = 1, 900 do t[i] = i end\n"
              "while true do pairs(t) end",
              WORK, 3, "still running");
}

TEST(errors_carry_their_line)
{
    MUST_FAIL("local a = 1\nlocal b = a.b.c\n", ERROR, 2, "attempt to index");
    MUST_FAIL("\n\nerror('boom')", ERROR, 3, "boom");
    MUST_FAIL("\n\nerror('boom', 0)", ERROR, 3, "boom");
    MUST_FAIL("local function f()\n error('deep', 2)\nend\nf()", ERROR, 4, "deep");
    MUST_FAIL("\nerror({ code = 1 })", ERROR, 2, "table value");
    MUST_FAIL("\nerror()", ERROR, 2, "nil value");
    MUST_FAIL("\nerror(setx)", ERROR, 2, "variable 'setx' is not defined");
    MUST_FAIL("\nerror(42)", ERROR, 2, "42");
    MUST_FAIL("\n\nassert(false)", ERROR, 3, "assertion failed");
    MUST_FAIL("local x = = 1", SYNTAX, 1, "unexpected symbol");
    MUST_FAIL("x = {\n\n", SYNTAX, 3, "expected");
    MUST_FAIL("\n#!/bin/sh\n", SYNTAX, 2, "unexpected symbol");
    MUST_FAIL("\nlocal x <close> = 5", ERROR, 2, "non-closable");
}

TEST(the_machine_is_out_of_reach)
{
    MUST_FAIL("\nio.open('/etc/passwd')", ERROR, 2, "no 'io'");
    MUST_FAIL("\nos.execute('true')", ERROR, 2, "no 'os'");
    MUST_FAIL("\nprint(package.path)", ERROR, 2, "no 'print'");
    MUST_FAIL("\nlocal p = package", ERROR, 2, "no 'package'");
    MUST_FAIL("\nrequire 'os'", ERROR, 2, "no 'require'");
    MUST_FAIL("\ndofile('x.lua')", ERROR, 2, "no 'dofile'");
    MUST_FAIL("\nloadfile('x.lua')", ERROR, 2, "no 'loadfile'");
    MUST_FAIL("\nload('return 1')()", ERROR, 2, "no 'load'");
    MUST_FAIL("\ndebug.sethook()", ERROR, 2, "no 'debug'");
    MUST_FAIL("\ncollectgarbage('stop')", ERROR, 2, "no 'collectgarbage'");
    MUST_FAIL("\nlocal g = _G", ERROR, 2, "no '_G'");
    MUST_FAIL("\nlocal g = _ENV.io", ERROR, 2, "no 'io'");
    MUST_FAIL("\nstring.dump(error)", ERROR, 2, "no 'string.dump'");
    MUST_FAIL("\nmath.random()", ERROR, 2, "always give the same");
    MUST_FAIL("\nstring.strip('x')", ERROR, 2, "no 'strip' in Lua's string library");
    /* Bytecode, as a chunk of its own. */
    MUST_FAIL("\033LuaT\0", SYNTAX, 1, "binary chunk");
}

TEST(endless_loops_end)
{
    MUST_FAIL("\nwhile true do end", WORK, 2, "still running");
    MUST_FAIL("\n::a:: goto a", WORK, 2, "still running");
    MUST_FAIL("\nlocal function f() return f() end\nf()", WORK, 2, "still running");
    MUST_FAIL("\nfor i = 1, math.huge do end", WORK, 2, "still running");
    MUST_FAIL("\nrepeat local s = 'a' .. tostring(1) until false", WORK, 2, "running");
}

TEST(pcall_cannot_swallow_the_end)
{
    MUST_FAIL("\nwhile true do\n pcall(function() while true do end end)\nend", WORK, 3,
              "still running");
    MUST_FAIL("local function f() pcall(f) while true do end end\n\nf()", WORK, 1,
              "still running");
    MUST_FAIL("while true do pcall(pcall, pcall, error) end", WORK, 1, "running");
    MUST_FAIL("while true do pcall(error, {}) end", WORK, 1, "running");
    MUST_FAIL("while true do pcall('not a function') end", WORK, 1, "running");
    MUST_FAIL("pcall(function() while true do end end)\nx = 1\n", WORK, 1, "running");
    MUST_FAIL("local function h() while true do end end\n"
              "xpcall(function() while true do end end, h)",
              WORK, 2, "still running");
    MUST_FAIL("\nxpcall(error, function() while true do end end)", WORK, 2, "running");
    MUST_FAIL("local function h() xpcall(error, h) end\nxpcall(error, h)", ERROR, 1,
              "overflow");
    MUST_FAIL("table.sort({3, 1, 2}, function() while true do end end)", WORK, 1,
              "running");
    MUST_FAIL("\ncoroutine.wrap(function() while true do end end)()", ERROR, 2,
              "no 'coroutine'");
    MUST_FAIL("\nsetmetatable({}, {__gc = function() while true do end end})", ERROR, 2,
              "no 'setmetatable'");
    MUST_FAIL("\nlocal m = getmetatable('').__index", ERROR, 2, "no 'getmetatable'");
}

TEST(library_calls_cannot_hide_work)
{
    MUST_FAIL("\nlocal s = string.rep('x', 1e9)", ERROR, 2, "more than 16384");
    MUST_FAIL("\nlocal s = ('x'):rep(1 << 62)", ERROR, 2, "more than 16384");
    MUST_FAIL("\nlocal s = ('x'):rep(10, ('y'):rep(9000))", ERROR, 2,
              "more than 16384");
    MUST_FAIL("while true do local s = (''):rep(1 << 62, '') end", WORK, 1, "running");
    MUST_FAIL("while true do local s = ('x'):rep(16000) end", WORK, 1, "running");
    MUST_FAIL("while true do pcall(string.rep, 'x', 1e9) end", WORK, 1, "running");
    MUST_FAIL("\n('a'):find(('a-'):rep(99) .. 'b')", ERROR, 2, "patterns are left out");
    MUST_FAIL("\nstring.match('a', 'a')", ERROR, 2, "patterns are left out");
    MUST_FAIL("\nfor w in ('a'):gmatch('a') do end", ERROR, 2, "patterns are left out");
    MUST_FAIL("\n('a'):gsub('a', function() end)", ERROR, 2, "patterns are left out");
    MUST_FAIL("\nstring.pack('i16', 1)", ERROR, 2, "left out");
    MUST_FAIL("\ntable.move({}, 1, 1 << 60, 2)", ERROR, 2, "table.move");
    /* A table whose border is at 2^62: #t is that, and insert would shift them all. */
    MUST_FAIL("local t = {}\nfor i = 0, 62 do t[1 << i] = 1; t[(1 << i) + 1] = 1 end\n"
              "table.insert(t, 1, 0)",
              WORK, 3, "still running");
    MUST_FAIL("local t = {}\nfor i = 0, 62 do t[1 << i] = 1; t[(1 << i) + 1] = 1 "
              "end\ntable.remove(t, 1)",
              WORK, 3, "still running");
    MUST_FAIL("local t = {}\nfor i = 0, 62 do t[1 << i] = 1; t[(1 << i) + 1] = 1 "
              "end\ntable.sort(t)",
              WORK, 3, "still running");
    MUST_FAIL("\nreturn table.concat({}, '', 1, 1 << 60)", ERROR, 2, "nil");
    MUST_FAIL("\nreturn table.unpack({}, 1, 1 << 60)", ERROR, 2, "too many results");
    MUST_FAIL("while true do pcall(table.unpack, {}, 1, 1000000) end", WORK, 1,
              "running");
    MUST_FAIL("while true do pcall(table.unpack, {}, 1, 100000) end", MEMORY, 1,
              "recursion");
    MUST_FAIL("local t = {}\nfor i = 1, 2000 do t[i] = -i end\n"
              "while true do table.sort(t) end",
              WORK, 3, "still running");
    MUST_FAIL("local t = {}\nfor i = 1, 2000 do t[i] = i end\n"
              "while true do table.insert(t, 1, table.remove(t, 1)) end",
              WORK, 3, "still running");
    /* next() walks all empty slots of a table that was filled and emptied. */
    MUST_FAIL("local t = {}\nfor i = 1, 1000 do t['k' .. i] = 1 end\n"
              "for i = 1, 1000 do t['k' .. i] = nil end\nwhile true do next(t) end",
              WORK, 4, "still running");
    MUST_FAIL("local t = {}\nfor i = 1, 1000 do t['k' .. i] = 1 end\n"
              "for i = 1, 1000 do t['k' .. i] = nil end\n"
              "while true do for k in pairs(t) do end end",
              WORK, 4, "still running");
    /* Comparing long strings full of NULs is one strcoll() a byte. */
    MUST_FAIL("local a = ('\\0'):rep(16000)\nlocal b = ('\\0'):rep(15999) .. '\\0'\n"
              "while true do local c = a < b end",
              WORK, 3, "still running");
    MUST_FAIL("local a = ('x'):rep(16000)\nlocal b = ('x'):rep(15999) .. 'x'\n"
              "while true do local c = a == b end",
              WORK, 3, "still running");
    MUST_FAIL("local a = ('1'):rep(16000)\nwhile true do local c = tonumber(a) end",
              WORK, 2, "still running");
    MUST_FAIL("while true do local s = ('%99.99f'):format(1e308) end", WORK, 1,
              "still running");
}

TEST(memory_is_bounded)
{
    MUST_FAIL("local s = 'x'\n\nwhile true do s = s .. s end", MEMORY, 3, "string of");
    MUST_FAIL("local t = {}\n\nwhile true do t[#t + 1] = 1 end", MEMORY, 3, "table");
    MUST_FAIL("local t = {}\n\nwhile true do t = {t, {}, {}} end", MEMORY, 3, "memory");
    MUST_FAIL("local t = {}\n\nfor i = 1, 1e9 do t['k' .. i] = i end", MEMORY, 3,
              "table");
    MUST_FAIL("\nlocal function f() return 1 + f() end\nreturn f()", MEMORY, 2,
              "recursion");
    MUST_FAIL("\nlocal function f(...) return f(1, ...) end\nreturn f()", MEMORY, 2,
              "recursion");
    MUST_FAIL(
        "local a = ('x'):rep(16000)\nlocal t = {}\nfor i = 1, 4000 do t[i] = a end\n"
        "\nlocal s = table.concat(t)",
        MEMORY, 5, "bytes");
    MUST_FAIL("local a = ('x'):rep(16000)\n\nlocal b = a..a..a..a..a..a..a..a..a..a..a",
              MEMORY, 3, "string of");
    MUST_FAIL("local a = ('x'):rep(16000)\n\nlocal f = ('%s'):rep(20)\n"
              "return f:format(a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a)",
              MEMORY, 4, "bytes");
    MUST_FAIL("local s = 'x'\n"
              "while true do pcall(function() while true do s = s .. s end end) end",
              MEMORY, 2, "string of");
    MUST_FAIL("local t = {}\n"
              "pcall(function() while true do t[#t + 1] = {} end end)\nx = 1",
              MEMORY, 2, "bytes");
}

TEST(the_C_stack_is_bounded)
{
    struct arena *a = arena_new();
    struct buf deep;
    buf_init(&deep, a);
    buf_puts(&deep, "\nx = ");
    for (int i = 0; i < 5000; i++)
        buf_puts(&deep, "(");
    MUST_FAIL(deep.data, SYNTAX, 2, "overflow");
    struct buf tables;
    buf_init(&tables, a);
    buf_puts(&tables, "\nx = ");
    for (int i = 0; i < 5000; i++)
        buf_puts(&tables, "{");
    MUST_FAIL(tables.data, SYNTAX, 2, "overflow");
    MUST_FAIL("\nlocal function f() pcall(f) end\nf()\nerror('end')", ERROR, 4, "end");
    MUST_FAIL("local function f() table.sort({2, 1}, f) end\nf()", ERROR, 1,
              "overflow");
    arena_free(a);
}

TEST(garbage_is_no_error)
{
    MUST_WORK("local n = 0\nfor i = 1, 20000 do local t = {i, {i}}; n = n + #t end\n"
              "assert(n == 40000)");
}

TEST(each_call_has_the_whole_budget)
{
    struct arena *a = arena_new();
    struct sandbox *s = sandbox_open(&small);
    struct sandbox_fault f;
    const char *script = "for i = 1, 500000 do end return 7";
    CHECK(sandbox_load(s, a, script, strlen(script), &f));
    for (int i = 0; i < 10; i++) {
        lua_pushvalue(sandbox_state(s), -1);
        CHECK(sandbox_call(s, a, 0, 1, &f));
        CHECK_EQ(lua_tointeger(sandbox_state(s), -1), 7);
        lua_pop(sandbox_state(s), 1);
    }
    CHECK(!sandbox_is_dead(s));
    sandbox_close(s);
    arena_free(a);
}

TEST(a_dead_sandbox_stays_dead)
{
    struct arena *a = arena_new();
    struct sandbox *s = sandbox_open(&small);
    struct sandbox_fault f;
    const char *loop = "while true do end", *fine = "return 1";
    CHECK(sandbox_load(s, a, loop, strlen(loop), &f));
    CHECK(!sandbox_call(s, a, 0, 0, &f));
    CHECK(sandbox_is_dead(s));
    CHECK(!sandbox_load(s, a, fine, strlen(fine), &f));
    sandbox_close(s);
    arena_free(a);
}
