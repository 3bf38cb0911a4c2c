/* The command line of the generator; here and in the verbs alone is anything printed.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gen/verbs.h"
#include "runtime/fp4gen.h"

enum { FAILED = 1, MISUSED = 2 };

static int run_verb(const struct opts *o, FILE *out, FILE *err)
{
    switch (o->verb) {
    case VERB_EMIT:
        return verb_emit(o, out, err);
    case VERB_PLAN:
        return verb_plan(o, out, err);
    case VERB_RUN:
        return verb_run(&o->run, out, err);
    case VERB_CHECK:
        return verb_check(&o->run, &o->checks, out, err);
    case VERB_LIST:
        return verb_list(o, out, err);
    case VERB_OPS:
        return verb_ops(out);
    case VERB_HELP:
    case VERB_COUNT:
        break;
    }
    help_show(o->topic, out);
    return 0;
}

static bool use_templates(const char *dir, struct diags *d)
{
    struct stat st;
    int error = stat(dir, &st) != 0 ? errno : S_ISDIR(st.st_mode) ? 0 : ENOTDIR;
    if (error) {
        diag_add(d, DIAG_CLI_DIRECTORY, (struct loc){"gen", 0, 0}, dir,
                 strerror(error));
        return false;
    }
    tmpl_use_dir(dir);
    return true;
}

static int run(struct arena *a, int argc, char **argv)
{
    struct diags *d = diags_new(a);
    if (argc < 2) {
        help_show(VERB_COUNT, stderr);
        return MISUSED;
    }
    const struct opts *o = opts_parse(a, argc, argv, d);
    if (!o) {
        print_diags(d, stderr);
        return MISUSED;
    }
    if (o->show_version) {
        puts("fp4gen " FP4GEN_VERSION);
        return 0;
    }
    if (o->templates_dir && !use_templates(o->templates_dir, d)) {
        print_diags(d, stderr);
        return FAILED;
    }
    return run_verb(o, stdout, stderr);
}

/* The errno of a result that did not arrive, or 0. */
static int close_stdout(void)
{
    errno = 0;
    bool failed = ferror(stdout) != 0;
    if (fflush(stdout) != 0 || failed)
        return errno ? errno : EIO;
    /* Closed from the start: no matter, nothing was written. */
    return fclose(stdout) != 0 && errno != EBADF ? errno : 0;
}

int main(int argc, char **argv)
{
    /* A reader that went away is an error like a full disk, not a silent end. */
    signal(SIGPIPE, SIG_IGN);
    static char buffer[1 << 18];
    if (!isatty(STDOUT_FILENO)) /* so that a failing write has its errno below */
        setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
    struct arena *a = arena_new();
    int status = run(a, argc, argv);
    int error = close_stdout();
    if (error) {
        struct diags *d = diags_new(a);
        diag_add(d, DIAG_CLI_STDOUT, (struct loc){"gen", 0, 0}, strerror(error));
        print_diags(d, stderr);
        status = FAILED;
    }
    tmpl_use_dir(NULL);
    arena_free(a);
    return status;
}
