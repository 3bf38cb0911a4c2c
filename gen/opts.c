#include "gen/opts.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gen/embed.h"
#include "gen/nearest.h"
#include "gen/run_outputs.h"

enum option_id {
#define OPT(id, name, letter, argument, verbs, meaning) OPT_##id,
#include "gen/opts.def"
#undef OPT
    OPT_COUNT
};

#define EMIT (1u << VERB_EMIT)
#define PLAN (1u << VERB_PLAN)
#define RUN (1u << VERB_RUN)
#define CHECK (1u << VERB_CHECK)
#define LIST (1u << VERB_LIST)
#define OPS (1u << VERB_OPS)
#define HELP (1u << VERB_HELP)

static const struct {
    const char *name;
    char letter;
    const char *argument;
    unsigned verbs;
} options[] = {
#define OPT(id, name, letter, argument, verbs, meaning) {name, letter, argument, verbs},
#include "gen/opts.def"
#undef OPT
};

static const char *const verb_names[] = {
#define VERB(id, name, arguments, summary) name,
#include "gen/opts.def"
#undef VERB
};

struct parser {
    struct arena *arena;
    struct diags *d;
    struct opts *o;
    int override_room;
    const char *words[2]; /* that are no options */
    int word_count;
};

const char *verb_name(int verb)
{
    return verb >= 0 && verb < VERB_COUNT ? verb_names[verb] : NULL;
}

static int find_verb(const char *word)
{
    for (int i = 0; i < VERB_COUNT; i++)
        if (strcmp(verb_names[i], word) == 0)
            return i;
    return VERB_COUNT;
}

static struct loc here(void)
{
    return (struct loc){"gen", 0, 0};
}

static void hint_help(struct parser *p)
{
    diag_note(p->d, loc_none(), "gen %s --help shows what there is",
              verb_names[p->o->verb]);
}

/* "--tile" or "-m", for messages. */
static const char *spelling(struct arena *a, enum option_id id)
{
    if (options[id].name)
        return arena_printf(a, "--%s", options[id].name);
    return arena_printf(a, "-%c", options[id].letter);
}

/* ---- arguments */

static bool refuse_argument(struct parser *p, enum option_id id, const char *text,
                            const char *wanted)
{
    diag_add(p->d, DIAG_CLI_ARGUMENT, here(), spelling(p->arena, id), text, wanted);
    return false;
}

static bool parse_count(struct parser *p, enum option_id id, const char *text,
                        uint64_t least, uint64_t most, uint64_t *out)
{
    char *end;
    errno = 0;
    bool is_hex = strncmp(text, "0x", 2) == 0;
    unsigned long long n = strtoull(text, &end, is_hex ? 16 : 10);
    *out = n;
    if (*text >= '0' && *text <= '9' && *end == '\0' && errno == 0 && n >= least &&
        n <= most)
        return true;
    return refuse_argument(p, id, text,
                           arena_printf(p->arena, "a whole number from %llu to %llu",
                                        (unsigned long long)least,
                                        (unsigned long long)most));
}

static void add_override(struct parser *p, const char *field, const char *value)
{
    struct opts *o = p->o;
    if (o->override_count == p->override_room) {
        int room = p->override_room ? 2 * p->override_room : 16;
        struct config_override *more =
            ARENA_ARRAY(p->arena, struct config_override, (size_t)room);
        if (o->override_count)
            memcpy(more, o->overrides, (size_t)o->override_count * sizeof *more);
        o->overrides = more;
        p->override_room = room;
    }
    o->overrides[o->override_count++] = (struct config_override){field, value};
}

/* MxN or MxNxK */
static bool parse_tile(struct parser *p, const char *text)
{
    static const char *const fields[] = {"tile.m", "tile.n", "tile.k"};
    const char *at = text;
    int count = 0;
    for (;; at++) {
        size_t digits = strspn(at, "0123456789");
        if (digits == 0 || digits > 9 || count == 3)
            break;
        add_override(p, fields[count++], arena_strndup(p->arena, at, digits));
        at += digits;
        if (*at == '\0' && count >= 2)
            return true;
        if (*at != 'x')
            break;
    }
    return refuse_argument(p, OPT_TILE, text,
                           "MxN or MxNxK, as in 128x256 or 128x256x128");
}

static bool parse_set(struct parser *p, const char *text)
{
    const char *equals = strchr(text, '=');
    if (!equals || equals == text)
        return refuse_argument(p, OPT_SET, text, "FIELD=VALUE, as in stages=3");
    add_override(p, arena_strndup(p->arena, text, (size_t)(equals - text)), equals + 1);
    return true;
}

static bool parse_setting(struct parser *p, const char *text)
{
    struct run_options *r = &p->o->run;
    const int most = 64;
    const char *equals = strchr(text, '=');
    char *end = NULL;
    errno = 0;
    double value = equals ? strtod(equals + 1, &end) : 0;
    if (errno == ERANGE && isinf(value))
        return refuse_argument(p, OPT_ARG, text,
                               "a number up to 1.7976931348623157e308, or inf");
    if (errno == ERANGE && value == 0)
        return refuse_argument(p, OPT_ARG, text, "0, or a number from 4.9e-324");
    if (!equals || equals == text || end == equals + 1 || *end ||
        r->setting_count == most)
        return refuse_argument(p, OPT_ARG, text, "NAME=VALUE, as in d_global=0.01");
    if (!r->settings)
        r->settings = ARENA_ARRAY(p->arena, struct run_setting, (size_t)most);
    r->settings[r->setting_count++] = (struct run_setting){
        arena_strndup(p->arena, text, (size_t)(equals - text)), value};
    return true;
}

/* A name and a file; both are given once. */
static bool add_file(struct parser *p, enum option_id id, const char *text,
                     const char *name, const char *path)
{
    struct run_options *r = &p->o->run;
    struct run_files *f = id == OPT_OUT ? &r->outs : &r->ins;
    if (!*path)
        return refuse_argument(p, id, text, "the name of a file");
    for (int i = 0; i < f->count; i++) {
        if ((name && f->list[i].name && strcmp(f->list[i].name, name) == 0) ||
            (!name && !f->list[i].name))
            return refuse_argument(p, id, text, "given once for each name");
        if (id == OPT_OUT && strcmp(f->list[i].path, path) == 0)
            return refuse_argument(p, id, text, "another file for each output");
    }
    if (f->count == RUN_MOST_FILES)
        return refuse_argument(p, id, text, "given 32 times at most");
    f->list[f->count++] = (struct run_file){name, path};
    return true;
}

/* NAME=FILE.  In front of a = that belongs to a file stands a slash: ./a=b.npy. */
static bool parse_file(struct parser *p, enum option_id id, const char *text)
{
    const char *equals = strchr(text, '=');
    const size_t chars = equals ? (size_t)(equals - text) : 0;
    if (equals && chars && !memchr(text, '/', chars))
        return add_file(p, id, text, arena_strndup(p->arena, text, chars), equals + 1);
    if (id == OPT_IN)
        return refuse_argument(p, id, text, "NAME=FILE, as in x=act.npy");
    return add_file(p, id, text, NULL, text);
}

static bool parse_float(struct parser *p, enum option_id id, const char *text,
                        float *out)
{
    char *end;
    errno = 0;
    *out = strtof(text, &end);
    if (end == text || *end)
        return refuse_argument(p, id, text, "a number");
    if (errno == ERANGE && isinf(*out))
        return refuse_argument(p, id, text,
                               "a number of f32, up to 3.4028235e38, or inf");
    return true;
}

static bool parse_word(struct parser *p, enum option_id id, const char *text,
                       const char *allowed, const char **out)
{
    size_t chars = strlen(text);
    for (const char *at = allowed; *at; at += strcspn(at, " "), at += strspn(at, " "))
        if (strcspn(at, " ") == chars && memcmp(at, text, chars) == 0) {
            *out = text;
            return true;
        }
    return refuse_argument(p, id, text, arena_printf(p->arena, "one of: %s", allowed));
}

static bool parse_run_count(struct parser *p, enum option_id id, const char *text)
{
    struct run_options *r = &p->o->run;
    const uint64_t int_max = 2147483647, bytes_max = (uint64_t)1 << 40;
    uint64_t n = 0;
    bool is_problem = id == OPT_M || id == OPT_N || id == OPT_K;
    uint64_t *stride = id == OPT_LDA   ? &r->lda
                       : id == OPT_LDB ? &r->ldb
                       : id == OPT_LDD ? &r->ldd
                       : id == OPT_LDX ? &r->ldx
                       : id == OPT_LDC ? &r->ldc
                       : id == OPT_LDS ? &r->lds
                                       : NULL;
    bool is_stride = stride != NULL;
    uint64_t most = is_stride            ? bytes_max
                    : id == OPT_SEED     ? UINT64_MAX
                    : id == OPT_PAD_BYTE ? 255
                                         : int_max;
    if (!parse_count(p, id, text, id == OPT_REPEAT || is_stride, most, &n))
        return false;
    if (is_problem)
        *(id == OPT_M ? &r->m : id == OPT_N ? &r->n : &r->k) = (int64_t)n;
    else if (is_stride)
        *stride = n;
    else if (id == OPT_SEED)
        r->seed = n;
    else if (id == OPT_PAD_BYTE)
        r->pad_byte = (int)n;
    else if (id == OPT_DEVICE)
        r->device = (int)n;
    else if (id == OPT_CTAS)
        r->ctas = (uint32_t)n;
    else
        r->repeat = (int)n;
    return true;
}

/* ---- one option */

static bool take_check(struct parser *p, const char *text)
{
    p->o->run.check = text ? RUN_CHECK_FULL : RUN_CHECK;
    if (!text || strcmp(text, "full") == 0)
        return true;
    return refuse_argument(p, OPT_CHECK, text, "--check or --check=full");
}

static bool take_global(struct parser *p, const char *text)
{
    char *end;
    errno = 0;
    const float global = strtof(text, &end);
    if (errno == ERANGE && (global == 0 || isinf(global)))
        return refuse_argument(
            p, OPT_GLOBAL, text,
            "a number of f32, from 1.4e-45 to 3.4028235e38, or amax");
    if (strcmp(text, "amax") == 0 || (end != text && *end == '\0'))
        return true;
    return refuse_argument(p, OPT_GLOBAL, text, "a number, or amax");
}

static bool take_option(struct parser *p, enum option_id id, const char *text)
{
    struct opts *o = p->o;
    switch (id) {
    case OPT_TILE:
        return parse_tile(p, text);
    case OPT_TARGET:
    case OPT_STAGES:
    case OPT_EPILOGUE:
        add_override(p, options[id].name, text);
        return true;
    case OPT_D_TYPE:
        add_override(p, "d.type", text);
        return true;
    case OPT_SET:
        return parse_set(p, text);
    case OPT_TEMPLATES:
        o->templates_dir = text;
        return true;
    case OPT_OUTPUT:
        o->output = text;
        return true;
    case OPT_NO_CHECK:
        o->check = false;
        return true;
    case OPT_M:
    case OPT_N:
    case OPT_K:
    case OPT_LDA:
    case OPT_LDB:
    case OPT_LDD:
    case OPT_LDX:
    case OPT_LDC:
    case OPT_LDS:
    case OPT_SEED:
    case OPT_PAD_BYTE:
    case OPT_DEVICE:
    case OPT_CTAS:
    case OPT_REPEAT:
        return parse_run_count(p, id, text);
    case OPT_A:
    case OPT_B:
    case OPT_X:
        return add_file(p, id, text, options[id].name, text);
    case OPT_IN:
    case OPT_OUT:
        return parse_file(p, id, text);
    case OPT_DTYPE:
        return parse_word(p, id, text, "bf16", &o->run.dtype);
    case OPT_ROUNDING:
        /* Of A and B, too, where they come from files; else it would be ignored. */
        add_override(p, o->verb == VERB_RUN ? "rounding?" : "rounding", text);
        return parse_word(p, id, text, "nearest halfstep stochastic", &o->run.rounding);
    case OPT_ARG:
        return parse_setting(p, text);
    case OPT_X_TYPE:
        add_override(p, "x.type", text);
        return true;
    case OPT_LAYOUT:
    case OPT_FROM:
    case OPT_PATH:
    case OPT_DIVISION:
        add_override(p, options[id].name, text);
        return true;
    case OPT_GLOBAL:
        o->run.global = text;
        return take_global(p, text);
    case OPT_ALPHA:
        return parse_float(p, id, text, &o->run.alpha);
    case OPT_ALPHA_PTR:
        o->run.alpha_on_device = true;
        return true;
    case OPT_CHECK:
        return take_check(p, text);
    case OPT_DRIVER:
        return parse_word(p, id, text, "auto cuda emu", &o->run.driver);
    case OPT_SEEDS: {
        uint64_t n;
        if (!parse_count(p, id, text, 0, 1000000, &n))
            return false;
        o->checks.seeds = (int)n;
        return true;
    }
    case OPT_STOP_AFTER: {
        uint64_t n;
        if (!parse_count(p, id, text, 1, 1000000, &n))
            return false;
        o->checks.stop_after = (int)n;
        return true;
    }
    case OPT_MINIMISE:
        o->checks.minimise = true;
        return true;
    case OPT_LEVEL:
        o->checks.level = text;
        return true;
    case OPT_MMA:
        return parse_word(p, id, text, "reference hardware", &o->checks.mma);
    case OPT_MATRIX:
        o->matrix = o->checks.matrix = true;
        return true;
    case OPT_HELP:
        o->topic = o->verb;
        o->verb = VERB_HELP;
        return true;
    case OPT_VERSION:
        o->show_version = true;
        return true;
    case OPT_COUNT:
        break;
    }
    return false;
}

/* ---- all of them */

static void refuse_option(struct parser *p, const char *typed)
{
    const char *names[OPT_COUNT];
    int count = 0;
    unsigned verbs = 0;
    const char *name = typed + strspn(typed, "-");
    size_t chars = strcspn(name, "=");
    for (int i = 0; i < OPT_COUNT; i++) {
        if (options[i].name && strlen(options[i].name) == chars &&
            strncmp(options[i].name, name, chars) == 0)
            verbs |= options[i].verbs;
        if (options[i].letter && options[i].letter == *name && chars >= 1 &&
            typed[1] != '-')
            verbs |= options[i].verbs;
        if (options[i].name && options[i].verbs & 1u << p->o->verb)
            names[count++] = options[i].name;
    }
    diag_add(p->d, DIAG_CLI_OPTION, here(), verb_names[p->o->verb], typed);
    const char *near = nearest_word(arena_strndup(p->arena, name, chars), names, count);
    if (verbs & 1u << p->o->verb) {
        diag_note(p->d, loc_none(), "it takes no argument");
        return;
    }
    for (int v = 0; v < VERB_COUNT; v++)
        if (verbs & 1u << v) {
            diag_note(p->d, loc_none(), "it belongs to gen %s", verb_names[v]);
            return;
        }
    if (near)
        diag_note(p->d, loc_none(), "did you mean --%s?", near);
    else
        hint_help(p);
}

static bool take_word(struct parser *p, const char *word)
{
    const int most = p->o->verb == VERB_LIST || p->o->verb == VERB_OPS ? 0 : 1;
    if (p->word_count < most) {
        p->words[p->word_count++] = word;
        return true;
    }
    diag_add(p->d, DIAG_CLI_EXTRA, here(), word, verb_names[p->o->verb]);
    if (find_verb(word) < VERB_COUNT)
        diag_note(p->d, loc_none(), "a verb comes first: gen %s ...", word);
    else
        hint_help(p);
    return false;
}

/* getopt's tables for the options of the verb. */
static void make_tables(unsigned verb, struct option *longs, char *letters)
{
    char *at = letters;
    *at++ = '-'; /* words are returned in order, as option 1 */
    *at++ = ':'; /* a missing argument is told apart */
    int count = 0;
    for (int i = 0; i < OPT_COUNT; i++) {
        if (!(options[i].verbs & 1u << verb))
            continue;
        const char *argument = options[i].argument;
        int has = !argument          ? no_argument
                  : *argument == '[' ? optional_argument
                                     : required_argument;
        if (options[i].name)
            longs[count++] = (struct option){options[i].name, has, NULL, 256 + i};
        if (options[i].letter) {
            *at++ = options[i].letter;
            if (has == required_argument)
                *at++ = ':';
        }
    }
    *at = '\0';
    longs[count] = (struct option){NULL, 0, NULL, 0};
}

static int find_letter(int letter)
{
    for (int i = 0; i < OPT_COUNT; i++)
        if (options[i].letter == letter)
            return i;
    return OPT_COUNT;
}

static bool parse_options(struct parser *p, int argc, char **argv)
{
    struct option longs[OPT_COUNT + 1];
    char letters[2 * OPT_COUNT + 3];
    make_tables(p->o->verb, longs, letters);
    opterr = 0;
    optind = 1;
    bool ok = true;
    int c;
    while (ok && p->o->verb != VERB_HELP &&
           (c = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
        const char *typed = optind > 1 ? argv[optind - 1] : "";
        if (c == 1) {
            ok = take_word(p, optarg);
        } else if (c == ':') {
            diag_add(p->d, DIAG_CLI_NO_ARGUMENT, here(), typed);
            hint_help(p);
            ok = false;
        } else if (c == '?') {
            if (strncmp(typed, "--", 2) != 0 && optopt)
                typed = arena_printf(p->arena, "-%c", optopt);
            refuse_option(p, typed);
            ok = false;
        } else {
            int id = c >= 256 ? c - 256 : find_letter(c);
            ok = take_option(p, (enum option_id)id, optarg);
        }
    }
    for (; ok && p->o->verb != VERB_HELP && optind < argc; optind++)
        ok = take_word(p, argv[optind]); /* behind "--" */
    return ok;
}

static bool is_path(const char *word)
{
    return strpbrk(word, "./") != NULL;
}

static bool check_config_word(struct parser *p, const char *word)
{
    const char *names[64];
    int count = 0;
    if (is_path(word) || embedded_find(arena_printf(p->arena, "configs/%s.lua", word)))
        return true;
    diag_add(p->d, DIAG_CLI_WORD, here(), word);
    for (int i = 0; i < VERB_COUNT; i++)
        names[count++] = verb_names[i];
    for (int i = 0; i < embedded_count && count < (int)COUNT_OF(names); i++) {
        const char *path = embedded_files[i].path, *slash = strchr(path, '/') + 1;
        if (strncmp(path, "configs/", 8) == 0)
            names[count++] = arena_strndup(p->arena, slash, strcspn(slash, "."));
    }
    const char *near = nearest_word(word, names, count);
    if (find_verb(word) < VERB_COUNT)
        diag_note(p->d, loc_none(), "a verb comes first: gen %s ...", word);
    else if (near)
        diag_note(p->d, loc_none(), "did you mean '%s'?", near);
    else
        diag_note(
            p->d, loc_none(),
            "gen --help names the verbs, gen list the configs; the path of a file "
            "has a dot or a slash");
    return false;
}

static bool ends_with(const char *s, const char *end)
{
    size_t s_chars = strlen(s), end_chars = strlen(end);
    return s_chars >= end_chars && strcmp(s + s_chars - end_chars, end) == 0;
}

/* Puts the words where the verb expects them. */
static bool place_words(struct parser *p)
{
    struct opts *o = p->o;
    const char *word = p->word_count ? p->words[0] : NULL;
    if (!word)
        return true;
    if ((o->verb == VERB_RUN || o->verb == VERB_CHECK) && is_path(word) &&
        !ends_with(word, ".lua")) {
        o->run.ptx_path = word;
        bool changes = false; /* a field that may be left out changes no kernel */
        for (int i = 0; i < o->override_count; i++)
            changes = changes || !strchr(o->overrides[i].field, '?');
        if (!changes)
            return true;
        diag_add(p->d, DIAG_CLI_PTX_OPTION, here(), word);
        diag_note(p->d, loc_none(),
                  "a kernel that lies on disk cannot be changed; give "
                  "its config instead");
        return false;
    }
    o->path = word;
    return check_config_word(p, word);
}

static bool parse_topic(struct parser *p, int argc, char **argv)
{
    struct opts *o = p->o;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            continue;
        o->topic = (enum verb)find_verb(argv[i]);
        if (o->topic == VERB_COUNT || i > 1) {
            if (i > 1)
                diag_add(p->d, DIAG_CLI_EXTRA, here(), argv[i], "help");
            else
                diag_add(p->d, DIAG_CLI_VERB, here(), argv[i]);
            diag_note(p->d, loc_none(), "gen help names the verbs");
            return false;
        }
    }
    return true;
}

struct opts *opts_parse(struct arena *a, int argc, char **argv, struct diags *d)
{
    struct opts *o = ARENA_NEW(a, struct opts);
    struct parser p = {.arena = a, .d = d, .o = o};
    o->run = run_defaults();
    o->checks.seeds = -1;
    o->check = true;
    o->topic = VERB_COUNT;
    int verb = argc > 1 ? find_verb(argv[1]) : VERB_COUNT;
    bool is_named = verb < VERB_COUNT;
    o->verb = is_named ? (enum verb)verb : VERB_EMIT;
    /* getopt looks at what follows the verb, with the verb in the program's place. */
    if (is_named) {
        argc--;
        argv++;
    }
    if (o->verb == VERB_HELP)
        return parse_topic(&p, argc, argv) ? o : NULL;
    if (!parse_options(&p, argc, argv))
        return NULL;
    if (o->verb == VERB_HELP) { /* --help; without a verb it is about all of them */
        o->topic = is_named ? o->topic : VERB_COUNT;
        return o;
    }
    if (!place_words(&p))
        return NULL;
    o->run.job = (struct job_options){.path = o->path,
                                      .overrides = o->overrides,
                                      .override_count = o->override_count,
                                      .check = o->check};
    return o;
}
