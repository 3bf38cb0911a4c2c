#include "gen/config.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gen/config_read.h"
#include "gen/embed.h"
#include "gen/expr.h"
#include "gen/nearest.h"
#include "gen/quantize.h"
#include "gen/tmpl.h"
#include "gen/trace.h"

enum { MOST_FILE_BYTES = 65536, MOST_NAME_CHARS = 63 };

enum field_kind {
    NAME,
    WORD,
    INT,
    STAGES,
    BOOL,
    TARGET,
    ANY_TARGET,
    TEMPLATE,
    EPILOGUE
};

enum field_id {
#define FIELD(id, path, kind, fallback, allowed, why, meaning) FIELD_##id,
#include "gen/schema.def"
    FIELD_GEMM_COUNT,
    FIELD_QUANTIZE_FIRST = FIELD_GEMM_COUNT,
    FIELD_BEFORE_QUANTIZE = FIELD_QUANTIZE_FIRST - 1,
#include "gen/schema_quantize.def"
#undef FIELD
    FIELD_COUNT
};

static const struct {
    const char *path;
    enum field_kind kind;
    const char *fallback, *allowed, *why, *meaning;
} fields[] = {
#define FIELD(id, path, kind, fallback, allowed, why, meaning)                         \
    {path, kind, fallback, allowed, why, meaning},
#include "gen/schema.def"
#include "gen/schema_quantize.def"
#undef FIELD
};

/* The fields that a constructor takes: a range of rows. */
struct family {
    const char *constructor;
    int first, end;
};

static const struct family families[] = {
    {"gemm", 0, FIELD_GEMM_COUNT},
    {"quantize", FIELD_QUANTIZE_FIRST, FIELD_COUNT},
};

/* What a field has in the end. */
struct setting {
    const char *text; /* canonical: 256, auto, true, sm_100f */
    int integer;
    struct loc loc;
    bool is_set;
    bool is_given; /* by the file or the command line */
};

struct checker {
    struct arena *arena;
    struct diags *d;
    const struct family *family;
    struct setting settings[FIELD_COUNT];
    struct expr *expr; /* of the epilogue */
};

const char *d_type_name(enum d_type t)
{
    return t == D_F32 ? "f32" : "bf16";
}

/* ---- what is allowed */

/* The words of a row's `allowed`: *rest moves behind the next one. */
static bool next_word(const char **rest, const char **word, size_t *chars)
{
    *rest += strspn(*rest, " ");
    *word = *rest;
    *chars = strcspn(*rest, " ");
    *rest += *chars;
    return *chars > 0;
}

static bool is_target_of(enum field_kind kind, const struct target *t)
{
    return kind == ANY_TARGET || (t->features & FEAT_TCGEN05) != 0;
}

/* All but those of quantize { ... }, which go with its op. */
static const char *gemm_templates(struct arena *a)
{
    struct buf b;
    buf_init(&b, a);
    buf_puts(&b, "");
    const char *rest = tmpl_names(a), *word;
    size_t chars;
    while (next_word(&rest, &word, &chars))
        if (!quantize_has_template(arena_strndup(a, word, chars)))
            buf_printf(&b, "%s%.*s", b.bytes ? " " : "", (int)chars, word);
    return b.data;
}

/* Separated by spaces, for rows whose words stand elsewhere. */
static const char *allowed_words(struct arena *a, enum field_id id)
{
    struct buf b;
    buf_init(&b, a);
    buf_puts(&b, "");
    const struct target *t;
    int names;
    switch (fields[id].kind) {
    case EPILOGUE: {
        const struct trace_name *n = trace_names(a, &names);
        for (int i = 0; i < names; i++)
            buf_printf(&b, "%s%s", i ? " " : "", n[i].name);
        return b.data;
    }
    case TARGET:
    case ANY_TARGET:
        for (int i = 0; (t = target_at(i)); i++)
            if (is_target_of(fields[id].kind, t))
                buf_printf(&b, "%s%s", b.bytes ? " " : "", t->name);
        return b.data;
    case TEMPLATE:
        return gemm_templates(a);
    default:
        return fields[id].allowed;
    }
}

/* "64, 128, 192 or 256" */
static const char *allowed_text(struct arena *a, enum field_id id)
{
    if (fields[id].kind == NAME || fields[id].kind == EPILOGUE)
        return fields[id].why;
    struct buf b;
    buf_init(&b, a);
    buf_puts(&b, "");
    const char *rest = allowed_words(a, id), *word;
    size_t chars;
    while (next_word(&rest, &word, &chars)) {
        bool is_last = rest[strspn(rest, " ")] == '\0';
        if (b.bytes)
            buf_puts(&b, is_last ? " or " : ", ");
        const char *dots = memchr(word, '.', chars);
        if (dots && dots[1] == '.')
            buf_printf(&b, "%.*s to %.*s", (int)(dots - word), word,
                       (int)(chars - (size_t)(dots - word) - 2), dots + 2);
        else
            buf_add(&b, word, chars);
    }
    return b.data;
}

static bool is_allowed_word(struct arena *a, enum field_id id, const char *text)
{
    const char *rest = allowed_words(a, id), *word;
    size_t chars;
    while (next_word(&rest, &word, &chars))
        if (strlen(text) == chars && memcmp(text, word, chars) == 0)
            return true;
    return false;
}

static bool is_allowed_number(enum field_id id, int64_t n)
{
    const char *rest = fields[id].allowed, *word;
    size_t chars;
    while (next_word(&rest, &word, &chars)) {
        char *end;
        long low = strtol(word, &end, 10);
        if (end == word)
            continue; /* auto */
        long high = strncmp(end, "..", 2) == 0 ? strtol(end + 2, NULL, 10) : low;
        if (n >= low && n <= high)
            return true;
    }
    return false;
}

static bool is_identifier(const char *s)
{
    const char *letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    const char *rest =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    return *s && strchr(letters, *s) && s[strspn(s, rest)] == '\0' &&
           strlen(s) <= MOST_NAME_CHARS;
}

const struct config_field *config_field_at(struct arena *a, int i)
{
    if (i < 0 || i >= FIELD_COUNT)
        return NULL;
    struct config_field *f = ARENA_NEW(a, struct config_field);
    f->path = fields[i].path;
    f->fallback = fields[i].fallback;
    f->allowed = allowed_text(a, (enum field_id)i);
    f->words = allowed_words(a, (enum field_id)i);
    f->meaning = fields[i].meaning;
    f->constructor = families[i >= FIELD_QUANTIZE_FIRST].constructor;
    return f;
}

/* ---- one value */

static const char *wanted(enum field_kind kind)
{
    switch (kind) {
    case INT:
        return "a whole number";
    case STAGES:
        return "\"auto\" or a whole number";
    case BOOL:
        return "true or false";
    case EPILOGUE:
        return "a name or a function";
    default:
        return "a string";
    }
}

static void refuse_type(struct checker *c, enum field_id id,
                        const struct config_value *v)
{
    diag_add(c->d, DIAG_FIELD_TYPE, v->loc, fields[id].path, wanted(fields[id].kind),
             v->shown);
    if (fields[id].kind != NAME)
        diag_note(c->d, loc_none(), "allowed: %s", allowed_text(c->arena, id));
}

static void refuse_value(struct checker *c, enum field_id id,
                         const struct config_value *v)
{
    diag_add(c->d, DIAG_FIELD_VALUE, v->loc, fields[id].path, v->shown,
             allowed_text(c->arena, id));
    if (*fields[id].why && fields[id].kind != NAME)
        diag_note(c->d, loc_none(), "%s", fields[id].why);
}

static void refuse_target(struct checker *c, const struct config_value *v)
{
    const struct target *t = target_find(v->text);
    if (!t) {
        refuse_value(c, FIELD_TARGET, v);
        return;
    }
    diag_add(c->d, DIAG_TARGET_TCGEN05, v->loc, v->text,
             allowed_text(c->arena, FIELD_TARGET));
    if (t->cc >= 100 && t->tmem_cols > 0)
        diag_note(c->d, loc_none(),
                  "the parts have tcgen05, but PTX gives it only to the family and "
                  "architecture targets: %sf or %sa",
                  t->name, t->name);
    else
        diag_note(c->d, loc_none(),
                  "tcgen05 and Tensor Memory exist on sm_100 and sm_103 parts (B200, "
                  "B300, GB200, GB300)");
}

/* The integer in a command line's text; false when it is none. */
static bool parse_integer(const char *text, int64_t *out)
{
    char *end;
    errno = 0;
    long long n = strtoll(text, &end, 10);
    *out = n;
    return *text && strchr("-0123456789", *text) && *end == '\0' && errno == 0;
}

static bool check_number(struct checker *c, enum field_id id,
                         const struct config_value *v)
{
    struct setting *s = &c->settings[id];
    int64_t n = v->integer;
    if (v->kind == VALUE_TYPED ? !parse_integer(v->text, &n)
                               : v->kind != VALUE_INTEGER) {
        refuse_type(c, id, v);
        return false;
    }
    if (!is_allowed_number(id, n)) {
        refuse_value(c, id, v);
        return false;
    }
    s->integer = (int)n;
    s->text = arena_printf(c->arena, "%d", s->integer);
    return true;
}

static bool check_bool(struct checker *c, enum field_id id,
                       const struct config_value *v)
{
    struct setting *s = &c->settings[id];
    bool is_typed = v->kind == VALUE_TYPED;
    if (is_typed ? strcmp(v->text, "true") != 0 && strcmp(v->text, "false") != 0
                 : v->kind != VALUE_BOOL) {
        refuse_type(c, id, v);
        return false;
    }
    s->integer = is_typed ? strcmp(v->text, "true") == 0 : v->integer != 0;
    s->text = s->integer ? "true" : "false";
    return true;
}

static bool check_text(struct checker *c, enum field_id id,
                       const struct config_value *v)
{
    enum field_kind kind = fields[id].kind;
    if (v->kind != VALUE_TEXT && v->kind != VALUE_TYPED) {
        refuse_type(c, id, v);
        return false;
    }
    if (kind == NAME ? is_identifier(v->text)
                     : is_allowed_word(c->arena, id, v->text)) {
        c->settings[id].text = v->text;
        return true;
    }
    if (kind == TARGET)
        refuse_target(c, v);
    else
        refuse_value(c, id, v);
    return false;
}

/* Names are looked up, but not identity: it needs no expression, and no time. */
static bool check_epilogue(struct checker *c, const struct config_value *v)
{
    struct setting *s = &c->settings[FIELD_EPILOGUE];
    if (v->kind == VALUE_EPILOGUE) {
        c->expr = v->expr;
        s->text = "custom";
        return c->expr != NULL;
    }
    if (v->kind != VALUE_TEXT && v->kind != VALUE_TYPED) {
        refuse_type(c, FIELD_EPILOGUE, v);
        return false;
    }
    s->text = v->text;
    c->expr = NULL;
    if (strcmp(v->text, "identity") == 0)
        return true;
    c->expr = trace_named(c->arena, v->text, v->loc, c->d);
    return c->expr != NULL;
}

static void check_value(struct checker *c, enum field_id id,
                        const struct config_value *v)
{
    bool ok = false;
    switch (fields[id].kind) {
    case STAGES:
        if ((v->kind == VALUE_TEXT || v->kind == VALUE_TYPED) &&
            strcmp(v->text, "auto") == 0) {
            c->settings[id].integer = STAGES_AUTO;
            c->settings[id].text = "auto";
            ok = true;
            break;
        }
        ok = check_number(c, id, v);
        break;
    case INT:
        ok = check_number(c, id, v);
        break;
    case BOOL:
        ok = check_bool(c, id, v);
        break;
    case EPILOGUE:
        ok = check_epilogue(c, v);
        break;
    case NAME:
    case WORD:
    case TARGET:
    case ANY_TARGET:
    case TEMPLATE:
        ok = check_text(c, id, v);
        break;
    }
    c->settings[id].is_set = ok;
    c->settings[id].loc = v->loc;
}

/* ---- all values */

static int find_field(const struct family *f, const char *path)
{
    for (int i = f->first; i < f->end; i++)
        if (strcmp(fields[i].path, path) == 0)
            return i;
    return -1;
}

static bool is_group(const struct family *f, const char *path)
{
    size_t chars = strlen(path);
    for (int i = f->first; i < f->end; i++)
        if (strncmp(fields[i].path, path, chars) == 0 && fields[i].path[chars] == '.')
            return true;
    return false;
}

static void list_fields(struct checker *c, const char *group)
{
    struct buf b;
    buf_init(&b, c->arena);
    size_t chars = strlen(group);
    for (int i = c->family->first; i < c->family->end; i++)
        if (strncmp(fields[i].path, group, chars) == 0)
            buf_printf(&b, "%s%s", b.bytes ? " " : "", fields[i].path);
    diag_note(c->d, loc_none(), "the fields are: %s", b.data);
}

/* "stagse" is near stages, "n" and "tile_n" mean tile.n. */
static const char *nearest_field(struct checker *c, const char *path)
{
    const char *names[2 * FIELD_COUNT];
    int count = 0;
    const char *last = strrchr(path, '.');
    last = last ? last + 1 : path;
    for (int i = c->family->first; i < c->family->end; i++) {
        const char *dot = strchr(fields[i].path, '.');
        names[count++] = fields[i].path;
        if (dot && strcmp(dot + 1, last) == 0)
            return fields[i].path;
        if (dot) {
            size_t chars = (size_t)(dot - fields[i].path);
            names[count++] = arena_strndup(c->arena, fields[i].path, chars);
        }
    }
    return nearest_word(path, names, count);
}

/* A field of the other constructor.  False: nobody knows it. */
static bool note_other_family(struct checker *c, const char *path)
{
    static const char *const of_outputs[] = {"rounding", "path", "division"};
    const struct family *other = &families[c->family == &families[0]];
    if (find_field(other, path) < 0)
        return false;
    diag_note(c->d, loc_none(), "it is a field of %s { ... }", other->constructor);
    for (size_t i = 0; i < COUNT_OF(of_outputs); i++)
        if (c->family == &families[0] && strcmp(path, of_outputs[i]) == 0)
            diag_note(c->d, loc_none(),
                      "here an output of the epilogue has it: e.nvfp4(x, { global = g, "
                      "%s = ... })",
                      path);
    return true;
}

static void refuse_unknown(struct checker *c, const struct config_value *v)
{
    char *group = arena_strdup(c->arena, v->path);
    char *dot = strchr(group, '.');
    if (dot)
        dot[1] = '\0';
    if (v->is_unnamed) {
        if (dot)
            *dot = '\0';
        diag_add(c->d, DIAG_FIELD_UNNAMED, v->loc, dot ? group : c->family->constructor,
                 v->shown);
        if (dot && is_group(c->family, group)) {
            dot[0] = '.';
            list_fields(c, group);
        }
        return;
    }
    diag_add(c->d, DIAG_FIELD_UNKNOWN, v->loc, v->path);
    if (note_other_family(c, v->path))
        return;
    const char *near = nearest_field(c, v->path);
    if (near && is_group(c->family, near))
        diag_note(c->d, loc_none(), "did you mean '%s', a table?", near);
    else if (near)
        diag_note(c->d, loc_none(), "did you mean '%s'?", near);
    else
        list_fields(c, "");
}

static void check_values(struct checker *c, const struct config_values *all)
{
    bool done[FIELD_COUNT] = {false};
    /* Last first: an override stands behind what it overrides. */
    const struct config_value *last[FIELD_COUNT] = {NULL};
    for (int i = 0; i < all->count; i++) {
        int id = find_field(c->family, all->values[i].path);
        if (id >= 0)
            last[id] = &all->values[i];
    }
    for (int i = 0; i < all->count; i++) {
        const struct config_value *v = &all->values[i];
        int id = v->is_unnamed ? -1 : find_field(c->family, v->path);
        if (id >= 0) {
            if (!done[id])
                check_value(c, (enum field_id)id, last[id]);
            c->settings[id].is_given = done[id] = true;
        } else if (v->is_unnamed || !is_group(c->family, v->path)) {
            const char *dot = strchr(v->path, '.');
            bool told = false; /* of the group that it stands in */
            for (int p = 0; dot && p < i; p++)
                told |= strncmp(all->values[p].path, v->path,
                                (size_t)(dot - v->path)) == 0 &&
                        all->values[p].path[dot - v->path] == '\0' &&
                        !is_group(c->family, all->values[p].path);
            if (!told)
                refuse_unknown(c, v);
        } else if (v->kind != VALUE_TABLE) {
            diag_add(c->d, DIAG_FIELD_TYPE, v->loc, v->path, "a table", v->shown);
            list_fields(c, arena_printf(c->arena, "%s.", v->path));
        }
    }
    for (int id = c->family->first; id < c->family->end; id++) {
        struct config_value v = {.path = fields[id].path,
                                 .kind = VALUE_TYPED,
                                 .text = fields[id].fallback,
                                 .shown = fields[id].fallback,
                                 .loc = all->gemm};
        if (!done[id])
            check_value(c, (enum field_id)id, &v);
    }
}

static enum expr_format d_format(const char *d_type)
{
    return strcmp(d_type, "f32") == 0 ? EXPR_OUT_F32 : EXPR_OUT_BF16;
}

static bool is_typed(const struct setting *s)
{
    return strcmp(s->loc.file, "command line") == 0;
}

/* Outputs e.d() get the type of D. */
static void settle_epilogue(struct checker *c)
{
    const struct setting *d_type = &c->settings[FIELD_D_TYPE];
    if (!c->expr || !d_type->is_set)
        return;
    const struct setting *epilogue = &c->settings[FIELD_EPILOGUE];
    bool has_d = false;
    for (int i = 0; i < c->expr->output_count; i++)
        has_d = has_d || c->expr->outputs[i].format == EXPR_OUT_D;
    /* A command line's epilogue is in place of the config's, its type of D with it. */
    if (!has_d && d_type->is_given && (is_typed(d_type) || !is_typed(epilogue)))
        diag_add(c->d, DIAG_EPILOGUE_D_TYPE, d_type->loc, d_type->text,
                 c->settings[FIELD_EPILOGUE].text);
    if (!expr_resolve_d(c->expr, d_format(d_type->text)))
        diag_add(c->d, DIAG_EPILOGUE, c->settings[FIELD_EPILOGUE].loc,
                 expr_fault(c->expr));
}

static void check_scale_vec(struct checker *c)
{
    const struct setting *target = &c->settings[FIELD_TARGET];
    const struct setting *scale_vec = &c->settings[FIELD_SCALE_VEC];
    if (!target->is_set || !scale_vec->is_set || !scale_vec->integer)
        return;
    const struct target *t = target_find(target->text);
    if (t->features & FEAT_SCALE_VEC)
        return;
    diag_add(c->d, DIAG_TARGET_SCALE_VEC, scale_vec->loc, t->name);
    diag_note(c->d, loc_none(),
              "%s is given only the spelling .block16, which means the same; without "
              "scale_vec it is used",
              t->name);
}

/* Enumerators stand in the order of the words. */
static int word_index(const struct setting *s, enum field_id id)
{
    const char *rest = fields[id].allowed, *word;
    size_t chars;
    int i = 0;
    while (next_word(&rest, &word, &chars) &&
           !(strlen(s[id].text) == chars && memcmp(s[id].text, word, chars) == 0))
        i++;
    return i;
}

#define BIT(field) (1u << (FIELD_Q_##field - FIELD_QUANTIZE_FIRST))

/* A field that the op does not use must not be set: it would be ignored. */
static void check_use(struct checker *c)
{
    const unsigned all = BIT(NAME) | BIT(TARGET) | BIT(OP) | BIT(LANES) | BIT(WARPS);
    const unsigned to_codes =
        all | BIT(X_TYPE) | BIT(LAYOUT) | BIT(ROUNDING) | BIT(PATH) | BIT(DIVISION);
    const unsigned used_by[] = {
        [QUANTIZE_PLAIN] = to_codes,
        [QUANTIZE_DEINTERLEAVE] = to_codes | BIT(X_ORDER),
        [QUANTIZE_SILU_MUL] = to_codes | BIT(X_FORM) | BIT(X_ORDER) | BIT(MATH),
        [QUANTIZE_BACK] = all | BIT(X_TYPE) | BIT(LAYOUT),
        [QUANTIZE_SCALES] = all | BIT(LAYOUT) | BIT(FROM),
    };
    if (!c->settings[FIELD_Q_OP].is_set)
        return;
    const char *op = c->settings[FIELD_Q_OP].text;
    unsigned used = used_by[word_index(c->settings, FIELD_Q_OP)];
    for (int id = FIELD_QUANTIZE_FIRST; id < FIELD_COUNT; id++)
        if (c->settings[id].is_given && !(used >> (id - FIELD_QUANTIZE_FIRST) & 1))
            diag_add(c->d, DIAG_FIELD_UNUSED, c->settings[id].loc, fields[id].path, op);
}

#undef BIT

/* ---- the whole */

static void add_overrides(struct checker *c, struct config_values *all,
                          const struct config_override *overrides, int count)
{
    if (count == 0)
        return;
    int sum = all->count;
    struct config_value *more =
        ARENA_ARRAY(c->arena, struct config_value, (size_t)(sum + count));
    if (sum)
        memcpy(more, all->values, (size_t)sum * sizeof *more);
    for (int i = 0; i < count; i++) {
        const struct config_override *o = &overrides[i];
        const char *field = o->field, *mark = strchr(field, '?');
        if (mark)
            field = arena_strndup(c->arena, field, (size_t)(mark - field));
        if (mark && find_field(c->family, field) < 0)
            continue;
        more[sum++] = (struct config_value){.path = field,
                                            .kind = VALUE_TYPED,
                                            .text = o->value,
                                            .shown = o->value,
                                            .loc = {"command line", 0, 0}};
    }
    all->values = more;
    all->count = sum;
}

static void refuse_builtin(struct arena *a, const char *name, struct diags *d)
{
    struct buf b;
    buf_init(&b, a);
    for (int i = 0; i < embedded_count; i++) {
        const char *path = embedded_files[i].path, *slash = strchr(path, '/') + 1;
        if (strncmp(path, "configs/", 8) == 0)
            buf_printf(&b, " %.*s", (int)strcspn(slash, "."), slash);
    }
    diag_add(d, DIAG_CONFIG_BUILTIN, loc_none(), name);
    diag_note(d, loc_none(), "built in:%s", b.bytes ? b.data : " none");
}

/* No Lua starts like this, and what gen writes does. */
static bool is_ptx(const char *text)
{
    text += strspn(text, " \t\r\n");
    return strncmp(text, "//", 2) == 0 || strncmp(text, ".version", 8) == 0;
}

static bool read_source(struct arena *a, struct config *c, const char *path,
                        size_t *bytes, struct diags *d)
{
    if (!strpbrk(path, "./")) {
        c->file = arena_printf(a, "configs/%s.lua", path);
        const struct embedded *e = embedded_find(c->file);
        if (!e) {
            refuse_builtin(a, path, d);
            return false;
        }
        c->source = (const char *)e->data;
        *bytes = e->bytes;
        return true;
    }
    c->file = arena_strdup(a, path);
    c->source = file_read(a, path, bytes);
    if (!c->source) {
        diag_add(d, DIAG_CONFIG_READ, (struct loc){c->file, 0, 0}, strerror(errno));
        const char *name = strchr(path, '/');
        if (name && embedded_find(path))
            diag_note(d, loc_none(), "the built-in config of that name is '%.*s'",
                      (int)strcspn(name + 1, "."), name + 1);
        return false;
    }
    if (*bytes > MOST_FILE_BYTES) {
        diag_add(d, DIAG_CONFIG_SIZE, (struct loc){c->file, 0, 0}, *bytes,
                 MOST_FILE_BYTES);
        return false;
    }
    static const char byte_order_mark[] = "\xef\xbb\xbf"; /* some editors' UTF-8 */
    const size_t mark_bytes = sizeof byte_order_mark - 1;
    if (strncmp(c->source, byte_order_mark, mark_bytes) == 0) {
        c->source += mark_bytes;
        *bytes -= mark_bytes;
    }
    if (is_ptx(c->source)) {
        diag_add(d, DIAG_CONFIG_PTX, (struct loc){c->file, 0, 0});
        return false;
    }
    return true;
}

static void keep_locs(struct arena *a, struct config *c, const struct checker *k,
                      const struct config_values *all)
{
    int sum = FIELD_COUNT + all->count + 1;
    c->locs = ARENA_ARRAY(a, struct config_field_loc, (size_t)sum);
    for (int id = k->family->first; id < k->family->end; id++)
        c->locs[c->loc_count++] =
            (struct config_field_loc){fields[id].path, k->settings[id].loc};
    for (int i = 0; i < all->count; i++)
        if (is_group(k->family, all->values[i].path))
            c->locs[c->loc_count++] =
                (struct config_field_loc){all->values[i].path, all->values[i].loc};
    c->locs[c->loc_count++] = (struct config_field_loc){"", all->gemm};
}

static uint64_t hash_settings(const struct checker *k)
{
    struct buf b;
    buf_init(&b, k->arena);
    for (int id = k->family->first; id < k->family->end; id++)
        buf_printf(&b, "%s=%s\n", fields[id].path, k->settings[id].text);
    if (k->expr)
        expr_write(k->expr, &b);
    return hash_bytes(b.data, b.bytes);
}

static void fill_gemm(struct config *c, const struct checker *k)
{
    const struct setting *s = k->settings;
    assert(s[FIELD_D_TYPE].text); /* fields of type enum have a default */
    c->name = s[FIELD_NAME].text;
    c->target = target_find(s[FIELD_TARGET].text);
    c->tile_m = s[FIELD_TILE_M].integer;
    c->tile_n = s[FIELD_TILE_N].integer;
    c->tile_k = s[FIELD_TILE_K].integer;
    c->stages = s[FIELD_STAGES].integer;
    c->d_type = strcmp(s[FIELD_D_TYPE].text, "f32") == 0 ? D_F32 : D_BF16;
    c->epilogue = s[FIELD_EPILOGUE].text;
    c->template_name = s[FIELD_TEMPLATE].text;
    c->scale_vec = s[FIELD_SCALE_VEC].integer != 0;
    c->group_m = s[FIELD_GROUP_M].integer;
    c->expr = k->expr;
}

static void fill_quantize(struct arena *a, struct config *c, const struct setting *s)
{
    struct quantize_config *q = ARENA_NEW(a, struct quantize_config);
    c->name = s[FIELD_Q_NAME].text;
    c->target = target_find(s[FIELD_Q_TARGET].text);
    q->op = (enum quantize_op)word_index(s, FIELD_Q_OP);
    q->x_type = (enum x_type)word_index(s, FIELD_Q_X_TYPE);
    q->x_form = (enum x_form)word_index(s, FIELD_Q_X_FORM);
    q->up_first = word_index(s, FIELD_Q_X_ORDER) != 0;
    q->layout = (enum scale_layout)word_index(s, FIELD_Q_LAYOUT);
    q->from = (enum scale_layout)word_index(s, FIELD_Q_FROM);
    q->rounding = (enum expr_rounding)word_index(s, FIELD_Q_ROUNDING);
    q->path = (enum expr_path)word_index(s, FIELD_Q_PATH);
    q->reciprocal = word_index(s, FIELD_Q_DIVISION) != 0;
    q->precise = word_index(s, FIELD_Q_MATH) != 0;
    q->lanes = s[FIELD_Q_LANES].integer;
    q->warps = s[FIELD_Q_WARPS].integer;
    c->quantize = q;
}

struct config *config_load(struct arena *a, const char *path,
                           const struct config_override *overrides, int override_count,
                           struct diags *d)
{
    struct config *c = ARENA_NEW(a, struct config);
    struct config_values all = {0};
    int before = d->count;
    c->file = "<command line>";
    all.gemm = (struct loc){c->file, 0, 0};
    if (path) {
        size_t bytes = 0;
        if (!read_source(a, c, path, &bytes, d))
            return NULL;
        /* What was found in the file is told together with what is wrong in fields. */
        if (!config_read(a, c->file, c->source, bytes, &all, d) && all.count == 0)
            return NULL;
    }
    struct checker k = {.arena = a, .d = d, .family = &families[0]};
    if (path && strcmp(all.constructor, families[1].constructor) == 0)
        k.family = &families[1];
    add_overrides(&k, &all, overrides, override_count);
    check_values(&k, &all);
    if (k.family == &families[0]) {
        check_scale_vec(&k);
        settle_epilogue(&k);
    } else {
        check_use(&k);
    }
    if (d->count != before)
        return NULL;
    keep_locs(a, c, &k, &all);
    if (k.family == &families[0])
        fill_gemm(c, &k);
    else
        fill_quantize(a, c, k.settings);
    c->hash = hash_settings(&k);
    return c;
}

struct loc config_loc(const struct config *c, const char *field)
{
    size_t chars = strlen(field), group_chars = strcspn(field, ".");
    const struct loc *found = NULL, *group = NULL;
    for (int i = 0; i < c->loc_count; i++) {
        const struct config_field_loc *l = &c->locs[i];
        bool is_member = strncmp(l->field, field, chars) == 0 && l->field[chars] == '.';
        if (strcmp(l->field, field) == 0)
            found = &l->loc;
        else if (is_member && l->loc.line == 0 && strcmp(l->loc.file, c->file) != 0)
            return l->loc; /* part of it comes from the command line */
        else if (strlen(l->field) == group_chars &&
                 strncmp(l->field, field, group_chars) == 0)
            group = &l->loc;
    }
    if (found)
        return *found;
    if (group)
        return *group;
    return c->loc_count ? c->locs[c->loc_count - 1].loc : (struct loc){c->file, 0, 0};
}
