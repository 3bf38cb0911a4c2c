/* The texts of --help, made from opts.def. */
#include <string.h>

#include "gen/opts.h"

#define EMIT (1u << VERB_EMIT)
#define PLAN (1u << VERB_PLAN)
#define RUN (1u << VERB_RUN)
#define CHECK (1u << VERB_CHECK)
#define LIST (1u << VERB_LIST)
#define OPS (1u << VERB_OPS)
#define HELP (1u << VERB_HELP)

static const struct {
    const char *name, *arguments, *summary;
} verbs[] = {
#define VERB(id, name, arguments, summary) {name, arguments, summary},
#include "gen/opts.def"
#undef VERB
};

static const struct {
    const char *name;
    char letter;
    const char *argument;
    unsigned verbs;
    const char *meaning;
} options[] = {
#define OPT(id, name, letter, argument, verbs, meaning)                                \
    {name, letter, argument, verbs, meaning},
#include "gen/opts.def"
#undef OPT
};

/* What a verb's own text says beside its options. */
static const char *const remarks[] = {
    [VERB_EMIT] =
        "CONFIG is a file (its path has a dot or a slash) or the name of a built-in\n"
        "config; without it every field has its default.  Options override the file,\n"
        "later ones earlier ones.  The PTX holds all that `gen run` must know.\n"
        "\n"
        "  gen --tile 128x256 > kernel.ptx\n"
        "  gen configs/nvfp4_gemm.lua --target sm_100a --d-type f32 --set stages=3 -o "
        "k.ptx\n",
    [VERB_PLAN] = "Shared memory, tensor memory, barriers, warps and the schedule.\n"
                  "\n"
                  "  gen plan --tile 128x192 --stages 3\n",
    [VERB_RUN] =
        "KERNEL.ptx is what gen wrote; all that a launch needs is inside it.  "
        "A CONFIG\n"
        "(name.lua, or a built-in one) is generated first.  M, N and K come "
        "from --a and\n"
        "--b where these are given; else the data is random, from the seed.\n"
        "\n"
        "  gen run kernel.ptx -m 300 -n 520 -k 1088 --check\n"
        "  gen run --tile 128x256 -m 4096 -n 4096 -k 4096 --driver emu "
        "--check --seed 7\n"
        "  gen run --tile 128x128 --a x.npy --b w.npy --out y.npy\n"
        "  gen run quantize_nvfp4 --x x.npy --out codes=q.npy --out scales=s.npy\n",
    [VERB_CHECK] = "The kernel runs on the emulator: with asynchronous work as early "
                   "and as late as\n"
                   "may be, with each warp held back in turn, and with chance choosing "
                   "who goes on.\n"
                   "Each time D is compared, and hazards are looked for.  A fault ends "
                   "it: the report,\n"
                   "and the command that repeats it.  Sizes that are not given suit "
                   "the kernel: few\n"
                   "CTAs with several tiles each, and tails everywhere.  emu/README.md "
                   "explains the\n"
                   "schedules, docs/emulator-checks.md the checks.\n"
                   "\n"
                   "  gen check kernel.ptx\n"
                   "  gen check --tile 128x192 --seeds 50 --minimise\n"
                   "  gen check configs/nvfp4_gemm.lua --matrix\n",
    [VERB_LIST] = "",
    [VERB_OPS] = "",
    [VERB_HELP] = "",
};

static const char *const closing =
    "Results go to stdout, everything else to stderr.\n"
    "Exit status: 0 done, 1 refused or failed, 2 misused.\n";

enum { OPTION_COLS = 24, LINE_COLS = 88 };

/* `text` from column `indent` on, broken at spaces. */
static void wrap(FILE *out, const char *text, int indent)
{
    int col = indent;
    while (*text) {
        int chars = (int)strcspn(text, " ");
        if (col > indent && col + 1 + chars > LINE_COLS) {
            fprintf(out, "\n%*s", indent, "");
            col = indent;
        } else if (col > indent) {
            fputc(' ', out);
            col++;
        }
        fprintf(out, "%.*s", chars, text);
        col += chars;
        text += chars;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

static void show_option(FILE *out, size_t i)
{
    char left[64] = "";
    const char *argument = options[i].argument;
    int chars = options[i].letter
                    ? snprintf(left, sizeof left, "  -%c", options[i].letter)
                    : snprintf(left, sizeof left, "    ");
    if (options[i].name)
        chars += snprintf(left + chars, sizeof left - (size_t)chars, "%s--%s",
                          options[i].letter ? ", " : "  ", options[i].name);
    if (argument)
        chars += snprintf(left + chars, sizeof left - (size_t)chars, "%s%s",
                          *argument == '[' ? "" : " ", argument);
    fprintf(out, "%-*s  ", OPTION_COLS, left);
    if (chars > OPTION_COLS)
        fprintf(out, "\n%*s", OPTION_COLS + 2, "");
    wrap(out, options[i].meaning, OPTION_COLS + 2);
}

static void show_verb(enum verb v, FILE *out)
{
    fprintf(out, "gen %s%s%s [OPTION]...\n", verbs[v].name,
            *verbs[v].arguments ? " " : "", verbs[v].arguments);
    fprintf(out, "  %s\n\n", verbs[v].summary);
    if (*remarks[v])
        fprintf(out, "%s\n", remarks[v]);
    fputs("options\n", out);
    for (size_t i = 0; i < COUNT_OF(options); i++)
        if (options[i].verbs & 1u << v)
            show_option(out, i);
    fprintf(out, "\n%s", closing);
}

void help_show(enum verb topic, FILE *out)
{
    if (topic < VERB_COUNT) {
        show_verb(topic, out);
        return;
    }
    fputs("gen [VERB] [OPTION]... - NVFP4 GEMM kernels in PTX from tile configs\n\n",
          out);
    for (size_t i = 0; i < COUNT_OF(verbs); i++) {
        char left[64];
        snprintf(left, sizeof left, "%s %s", verbs[i].name, verbs[i].arguments);
        if (strlen(left) > 12)
            fprintf(out, "  gen %s\n%*s", left, 20, "");
        else
            fprintf(out, "  gen %-14s", left);
        wrap(out, verbs[i].summary, 20);
    }
    fputs("\nWithout a verb it is emit.  `gen VERB --help` shows the options of a "
          "verb.\n\n",
          out);
    show_verb(VERB_EMIT, out);
}
