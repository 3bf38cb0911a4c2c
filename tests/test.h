/* test.h - the macros that every tests/t_*.c is written with.
 *
 * Each t_*.c becomes one program, together with main.c.  TEST() registers its function
 * before main() starts; main.c runs each test in a process of its own, so that a crash
 * or an endless loop costs one test and its output is shown only when it fails.
 *
 *     TEST(zero_is_zero)
 *     {
 *         CHECK_EQ(e2m1_encode(0.0f), 0);
 *     }
 *
 *     build/release/tests/t_fp4              all tests of the file
 *     build/release/tests/t_fp4 zero half    those whose name contains a word
 *     build/release/tests/t_fp4 -n zero      in this process, for a debugger
 */
#ifndef FP4GEN_TEST_H
#define FP4GEN_TEST_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base.h"
#include "core/diag.h"

struct test_case {
    const char *name;
    void (*run)(void);
    bool slow; /* 10 minutes instead of 1, and not under a sanitizer */
    struct test_case *next;
};

void test_register(struct test_case *t);
_Noreturn void test_fail(const char *file, int line, const char *fmt, ...)
    PRINTF_LIKE(3, 4);
_Noreturn void test_skip(const char *file, int line, const char *reason);
void test_eq(const char *file, int line, const char *a_text, const char *b_text,
             long long a, long long b);
void test_str(const char *file, int line, const char *a_text, const char *b_text,
              const char *a, const char *b);
void test_near(const char *file, int line, const char *a_text, const char *b_text,
               double a, double b, double tolerance);
void test_diag(const char *file, int line, const struct diags *d, const char *code,
               int at_line);
/* A path in a directory that is made for this test and removed after it. */
const char *test_tmp_path(const char *name);

/* The one place that needs a constructor: C has no other way to run code before main.
 */
#define TEST_CASE(test_name, is_slow)                                                  \
    static void case_##test_name(void);                                                \
    __attribute__((constructor)) static void register_##test_name(void)                \
    {                                                                                  \
        static struct test_case this_case = {#test_name, case_##test_name, is_slow,    \
                                             NULL};                                    \
        test_register(&this_case);                                                     \
    }                                                                                  \
    static void case_##test_name(void)

#define TEST(test_name) TEST_CASE(test_name, false)
#define TEST_SLOW(test_name) TEST_CASE(test_name, true)

#define CHECK(cond)                                                                    \
    do {                                                                               \
        if (!(cond))                                                                   \
            test_fail(__FILE__, __LINE__, "not so: %s", #cond);                        \
    } while (0)

/* Integers, enums, booleans. */
#define CHECK_EQ(a, b)                                                                 \
    test_eq(__FILE__, __LINE__, #a, #b, (long long)(a), (long long)(b))
/* NULL equals only NULL. */
#define CHECK_STR(a, b) test_str(__FILE__, __LINE__, #a, #b, (a), (b))
/* |a - b| <= tolerance; a NaN is near nothing. */
#define CHECK_NEAR(a, b, tolerance)                                                    \
    test_near(__FILE__, __LINE__, #a, #b, (double)(a), (double)(b), (double)(tolerance))
/* `d` holds a message with this code at this line; line 0: at any. */
#define CHECK_DIAG(d, code, line) test_diag(__FILE__, __LINE__, (d), (code), (line))
/* Ends the test; counted apart from passed and failed. */
#define SKIP(reason) test_skip(__FILE__, __LINE__, (reason))

#endif
