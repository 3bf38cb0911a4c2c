/* main.c - runs the tests of one t_*.c, each in a process of its own.
 *
 * cmocka gives each test its setjmp frame and catches its signals; here is what it
 * lacks: registration, isolation, a time limit, and output that is kept back until it
 * is known whether somebody must read it.  The last line is "N passed, N failed" with
 * ", N skipped" behind it when there are any; tests/run.py adds these lines up. */
#include "tests/test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED true
#endif
#endif
#ifndef SANITIZED
#define SANITIZED false
#endif

enum {
    LIMIT_S = 60,
    SLOW_LIMIT_S = 600,
    SANITIZED_FACTOR = 4,
    EXIT_FAILED = 1,
    EXIT_SKIPPED = 77,
};

static struct test_case *first_case;
static struct test_case **last_case = &first_case;
static const struct test_case *current;
static bool skipped;
static char tmp_dir[64];

void test_register(struct test_case *t)
{
    *last_case = t;
    last_case = &t->next;
}

void test_fail(const char *file, int line, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fprintf(stderr, "%s:%d: ", file, line);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
    fflush(NULL);
    _fail(file, line);
    abort(); /* _fail jumps away; the compiler cannot know */
}

void test_skip(const char *file, int line, const char *reason)
{
    skipped = true;
    printf("skipped: %s\n", reason);
    fflush(NULL);
    _skip(file, line);
    abort();
}

void test_eq(const char *file, int line, const char *a_text, const char *b_text,
             long long a, long long b)
{
    if (a != b)
        test_fail(file, line, "%s is %lld (0x%llx), %s is %lld (0x%llx)", a_text, a,
                  (unsigned long long)a, b_text, b, (unsigned long long)b);
}

void test_str(const char *file, int line, const char *a_text, const char *b_text,
              const char *a, const char *b)
{
    if (a == b || (a && b && strcmp(a, b) == 0))
        return;
    test_fail(file, line, "%s is\n  \"%s\"\n%s is\n  \"%s\"", a_text, a ? a : "(NULL)",
              b_text, b ? b : "(NULL)");
}

void test_near(const char *file, int line, const char *a_text, const char *b_text,
               double a, double b, double tolerance)
{
    double difference = a > b ? a - b : b - a;
    if (a == b || difference <= tolerance)
        return;
    test_fail(file, line, "%s is %.17g, %s is %.17g: off by %.3g, allowed %.3g", a_text,
              a, b_text, b, difference, tolerance);
}

void test_diag(const char *file, int line, const struct diags *d, const char *code,
               int at_line)
{
    for (const struct diag *g = d->first; g; g = g->next)
        if (strcmp(diag_code_name(g->code), code) == 0 &&
            (at_line == 0 || g->loc.line == at_line))
            return;
    fprintf(stderr, "no [%s] at line %d; there are %d messages\n", code, at_line,
            d->count);
    struct buf text;
    buf_init(&text, d->arena);
    for (const struct diag *g = d->first; g; g = g->next)
        diag_format(g, NULL, &text);
    test_fail(file, line, "%s", text.data ? text.data : "none");
}

const char *test_tmp_path(const char *name)
{
    static char paths[16][sizeof tmp_dir + 128];
    static size_t used;
    if (used == COUNT_OF(paths))
        test_fail(__FILE__, __LINE__, "more than %zu temporary paths", used);
    char *path = paths[used++];
    if (!tmp_dir[0]) {
        const char *base = getenv("TMPDIR");
        snprintf(tmp_dir, sizeof tmp_dir, "%.40s/fp4test.XXXXXX", base ? base : "/tmp");
        if (!mkdtemp(tmp_dir))
            test_fail(__FILE__, __LINE__, "cannot make %s: %s", tmp_dir,
                      strerror(errno));
    }
    int bytes = snprintf(path, sizeof paths[0], "%s/%s", tmp_dir, name);
    if (bytes < 0 || (size_t)bytes >= sizeof paths[0])
        test_fail(__FILE__, __LINE__, "temporary name is too long: %s", name);
    return path;
}

static void remove_tmp(void)
{
    if (!tmp_dir[0])
        return;
    pid_t child = fork();
    if (child == 0) {
        execlp("rm", "rm", "-rf", "--", tmp_dir, (char *)NULL);
        _exit(127);
    }
    if (child > 0)
        waitpid(child, NULL, 0);
}

static void run_current(void **state)
{
    (void)state;
    current->run();
}

/* In the child: one cmocka group of one test. */
static int run_here(const struct test_case *t)
{
    current = t;
    const struct CMUnitTest tests[] = {{t->name, run_current, NULL, NULL, NULL}};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    remove_tmp();
    return failed ? EXIT_FAILED : skipped ? EXIT_SKIPPED : 0;
}

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int limit_s(const struct test_case *t)
{
    return (t->slow ? SLOW_LIMIT_S : LIMIT_S) * (SANITIZED ? SANITIZED_FACTOR : 1);
}

/* Waits for the child, or kills it and what it started when its time is over. */
static int wait_for(pid_t child, double deadline, bool *timed_out)
{
    int status = 0;
    struct timespec nap = {0, 200000};
    *timed_out = false;
    while (waitpid(child, &status, WNOHANG) == 0) {
        if (!*timed_out && seconds_now() > deadline) {
            *timed_out = true;
            kill(-child, SIGKILL);
            kill(child, SIGKILL);
        }
        nanosleep(&nap, NULL);
        if (nap.tv_nsec < 10000000)
            nap.tv_nsec *= 2;
    }
    return status;
}

/* What cmocka says about a group of one test, and we have said already. */
static bool is_chatter(const char *line)
{
    static const char *const starts[] = {
        "[==", "[ RUN", "[  PASSED", "[  FAILED", "[       OK", " 1 FAILED", "\n"};
    for (size_t i = 0; i < COUNT_OF(starts); i++)
        if (strncmp(line, starts[i], strlen(starts[i])) == 0)
            return true;
    return false;
}

static void copy_out(FILE *from, FILE *to, const char *only_after)
{
    char line[4096];
    rewind(from);
    while (fgets(line, sizeof line, from))
        if (!only_after && !is_chatter(line))
            fprintf(to, "    %s", line);
        else if (only_after && strncmp(line, only_after, strlen(only_after)) == 0)
            fputs(line, to);
}

/* Returns EXIT_FAILED, EXIT_SKIPPED or 0. */
static int run_apart(const struct test_case *t)
{
    FILE *output = tmpfile();
    if (!output) {
        perror("tmpfile");
        exit(1);
    }
    fflush(NULL);
    double start = seconds_now();
    pid_t child = fork();
    if (child < 0) {
        perror("fork");
        exit(1);
    }
    if (child == 0) {
        setpgid(0, 0);
        dup2(fileno(output), STDOUT_FILENO);
        dup2(fileno(output), STDERR_FILENO);
        exit(run_here(t)); /* not _exit: the leak checker runs at exit */
    }
    bool timed_out;
    int status = wait_for(child, start + limit_s(t), &timed_out);
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILED;
    if (code == EXIT_SKIPPED) {
        printf("%s: ", t->name);
        copy_out(output, stdout, "skipped: ");
    } else if (code != 0) {
        code = EXIT_FAILED;
        printf("FAILED %s", t->name);
        if (timed_out)
            printf(": over %d s", limit_s(t));
        else if (WIFSIGNALED(status))
            printf(": signal %d", WTERMSIG(status));
        putchar('\n');
        copy_out(output, stdout, NULL);
    }
    fclose(output);
    return code;
}

static bool wanted(const struct test_case *t, char **words, int word_count)
{
    for (int i = 0; i < word_count; i++)
        if (strstr(t->name, words[i]))
            return true;
    return word_count == 0;
}

int main(int argc, char **argv)
{
    bool here = argc > 1 && strcmp(argv[1], "-n") == 0;
    char **words = argv + 1 + here;
    int word_count = argc - 1 - here;
    int passed = 0, failed = 0, left_out = 0;
    bool terminal = isatty(STDERR_FILENO);

    for (const struct test_case *t = first_case; t; t = t->next) {
        if (!wanted(t, words, word_count))
            continue;
        if (t->slow && SANITIZED && word_count == 0) {
            printf("%s: skipped: too slow under a sanitizer\n", t->name);
            left_out++;
            continue;
        }
        if (terminal)
            fprintf(stderr, "\r\033[K%s", t->name);
        int code = here ? run_here(t) : run_apart(t);
        skipped = false;
        passed += code == 0;
        failed += code == EXIT_FAILED;
        left_out += code == EXIT_SKIPPED;
    }
    if (terminal)
        fputs("\r\033[K", stderr);
    printf("%d passed, %d failed", passed, failed);
    if (left_out)
        printf(", %d skipped", left_out);
    putchar('\n');
    return failed != 0;
}
