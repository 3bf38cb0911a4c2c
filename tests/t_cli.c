/* Transcripts of the command line, tests/cli/NAME.cli.
 *
 *     # a comment
 *     $ gen --tile 128x96             a command for sh, in an empty directory
 *     + more of it                    after a newline (a here-document)
 *     > what it wrote to stdout
 *     ! what it wrote to stderr
 *     = 1                             exit status, when it is not 0
 *
 * In expected lines {*} stands for any text; a line "> ..." for any lines.  `gen` is
 * the program of this build, $ROOT the source tree. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/test.h"

enum { MOST_LINES = 512 };

struct lines {
    const char *text[MOST_LINES];
    int count;
};

struct step {
    int line; /* in the transcript */
    const char *command;
    struct lines out, err;
    int status;
};

static void add_line(struct lines *l, const char *text)
{
    CHECK(l->count < MOST_LINES);
    l->text[l->count++] = text;
}

/* ---- comparing */

static bool line_matches(const char *pattern, const char *text)
{
    const char *star = strstr(pattern, "{*}");
    if (!star)
        return strcmp(pattern, text) == 0;
    size_t chars = (size_t)(star - pattern);
    if (strncmp(pattern, text, chars) != 0)
        return false;
    for (text += chars;; text++) {
        if (line_matches(star + 3, text))
            return true;
        if (!*text)
            return false;
    }
}

static bool lines_match(const struct lines *want, int w, const struct lines *got, int g)
{
    for (; w < want->count; w++, g++) {
        if (strcmp(want->text[w], "...") == 0) {
            for (int skip = g; skip <= got->count; skip++)
                if (lines_match(want, w + 1, got, skip))
                    return true;
            return false;
        }
        if (g >= got->count || !line_matches(want->text[w], got->text[g]))
            return false;
    }
    return g == got->count;
}

static void put_lines(struct buf *b, const char *mark, const struct lines *l)
{
    for (int i = 0; i < l->count; i++)
        buf_printf(b, "%s %s\n", mark, l->text[i]);
}

/* ---- running */

static const char *bin_dir(struct arena *a)
{
    const char *given = getenv("FP4GEN_BIN");
    if (given)
        return given;
    char self[1024];
    ssize_t chars = readlink("/proc/self/exe", self, sizeof self - 1);
    CHECK(chars > 0);
    self[chars] = '\0';
    char *slash = strrchr(self, '/');
    *slash = '\0';
    return arena_printf(a, "%s/../bin", self);
}

static int run_command(struct arena *a, const char *dir, const char *command,
                       const char *out, const char *err)
{
    char root[1024];
    CHECK(getcwd(root, sizeof root));
    const char *bin = bin_dir(a);
    const char *path = arena_printf(a, "%s%s%s:%s", *bin == '/' ? "" : root,
                                    *bin == '/' ? "" : "/", bin, getenv("PATH"));
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        int o = open(out, O_WRONLY | O_CREAT | O_TRUNC, 0666);
        int e = open(err, O_WRONLY | O_CREAT | O_TRUNC, 0666);
        if (o < 0 || e < 0 || dup2(o, 1) < 0 || dup2(e, 2) < 0 || chdir(dir) != 0)
            _exit(126);
        setenv("PATH", path, 1);
        setenv("ROOT", root, 1);
        unsetenv("FP4GEN_DRIVER");
        unsetenv("POSIXLY_CORRECT");
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static struct lines read_lines(struct arena *a, const char *path)
{
    struct lines l = {.count = 0};
    size_t bytes;
    char *text = file_read(a, path, &bytes);
    CHECK(text);
    while (*text && l.count < MOST_LINES) {
        char *end = strchr(text, '\n');
        l.text[l.count++] = text;
        if (!end)
            break;
        *end = '\0';
        text = end + 1;
    }
    return l;
}

static void run_step(struct arena *a, const char *file, const struct step *s,
                     const char *dir, const char *out, const char *err)
{
    int status = run_command(a, dir, s->command, out, err);
    struct lines got_out = read_lines(a, out), got_err = read_lines(a, err);
    if (status == s->status && lines_match(&s->out, 0, &got_out, 0) &&
        lines_match(&s->err, 0, &got_err, 0))
        return;
    for (int i = 0; i < got_err.count; i++)
        if (strstr(got_err.text[i], "[epilogue-no-llvm]"))
            SKIP("libfp4gen-llvm.so is not built: no LLVM 22");
    struct buf b;
    buf_init(&b, a);
    buf_printf(&b, "$ %s\n--- expected\n", s->command);
    put_lines(&b, ">", &s->out);
    put_lines(&b, "!", &s->err);
    buf_printf(&b, "= %d\n--- got\n", s->status);
    put_lines(&b, ">", &got_out);
    put_lines(&b, "!", &got_err);
    buf_printf(&b, "= %d\n", status);
    test_fail(file, s->line, "%s", b.data);
}

/* ---- transcripts */

static void play(const char *name)
{
    struct arena *a = arena_new();
    const char *file = arena_printf(a, "tests/cli/%s.cli", name);
    const char *dir = test_tmp_path("work");
    const char *out = test_tmp_path("out"), *err = test_tmp_path("err");
    CHECK(mkdir(dir, 0777) == 0);
    size_t bytes;
    char *text = file_read(a, file, &bytes);
    if (!text)
        test_fail(file, 0, "%s", strerror(errno));
    struct step step = {.line = 0};
    int steps = 0;
    for (int line = 1; *text; line++) {
        char *end = text + strcspn(text, "\n");
        bool is_last = *end == '\0';
        *end = '\0';
        const char *rest = text[0] && text[1] ? text + 2 : "";
        switch (text[0]) {
        case '$':
            if (step.command)
                run_step(a, file, &step, dir, out, err);
            step = (struct step){.line = line, .command = rest};
            steps++;
            break;
        case '+':
            step.command = arena_printf(a, "%s\n%s", step.command, rest);
            break;
        case '>':
            add_line(&step.out, rest);
            break;
        case '!':
            add_line(&step.err, rest);
            break;
        case '=':
            step.status = atoi(rest);
            break;
        case '#':
        case '\0':
            break;
        default:
            test_fail(file, line, "not a line of a transcript: %s", text);
        }
        text = is_last ? end : end + 1;
    }
    if (step.command)
        run_step(a, file, &step, dir, out, err);
    CHECK(steps > 0);
    arena_free(a);
}

#define TRANSCRIPTS                                                                    \
    PLAY(help)                                                                         \
    PLAY(epilogues)                                                                    \
    PLAY(usage)                                                                        \
    PLAY(fields)                                                                       \
    PLAY(scripts)                                                                      \
    PLAY(templates)                                                                    \
    PLAY(list)                                                                         \
    PLAY(output)                                                                       \
    PLAY(plan)                                                                         \
    PLAY(run)                                                                          \
    PLAY(quantize)

#define PLAY(name)                                                                     \
    TEST(transcript_##name)                                                            \
    {                                                                                  \
        play(#name);                                                                   \
    }
TRANSCRIPTS
#undef PLAY

TEST(every_transcript_is_played)
{
    static const char *const played[] = {
#define PLAY(name) #name ".cli",
        TRANSCRIPTS
#undef PLAY
    };
    DIR *dir = opendir("tests/cli");
    CHECK(dir);
    int count = 0;
    for (struct dirent *e; (e = readdir(dir));) {
        size_t chars = strlen(e->d_name);
        if (chars < 4 || strcmp(e->d_name + chars - 4, ".cli") != 0)
            continue;
        bool is_played = false;
        for (size_t i = 0; i < COUNT_OF(played); i++)
            is_played |= strcmp(played[i], e->d_name) == 0;
        if (!is_played)
            test_fail(__FILE__, __LINE__, "%s is not in TRANSCRIPTS", e->d_name);
        count++;
    }
    closedir(dir);
    CHECK_EQ(count, COUNT_OF(played));
}
