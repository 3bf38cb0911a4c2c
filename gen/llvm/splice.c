#include "gen/llvm/splice.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum reg_class { CLASS_PRED, CLASS_B16, CLASS_B32, CLASS_B64, CLASS_COUNT };

static const struct {
    const char *llvm, *ours, *type; /* "%rd": spelling in LLVM's text */
    int words;
} classes[] = {
    {"%p", "p", "pred", 0},
    {"%rs", "s", "b16", 1},
    {"%r", "r", "b32", 1},
    {"%rd", "d", "b64", 2},
};

/* One register of LLVM's. */
struct reg {
    enum reg_class class;
    int number;       /* LLVM's */
    const char *name; /* in the template; NULL: not named yet */
    int defs;         /* instructions that write it; marks count */
    bool is_in, is_out, is_read, is_constant;
    int first, last; /* lines between which it holds a value */
    bool is_ours;    /* named by number, so declared in the block */
};

struct line {
    const char *text; /* without newline and leading blanks */
    size_t chars;
    bool is_label;
    /* Marks. */
    bool is_in, is_out;
    const char *mark;
    int reg; /* index */
};

struct text {
    struct arena *arena;
    const char *prefix;
    struct line *lines;
    int line_count;
    struct reg *regs;
    int reg_count, reg_cap;
    int *found[CLASS_COUNT]; /* by LLVM's number: index + 1; 0: not met yet */
    int found_cap[CLASS_COUNT];
    int next[CLASS_COUNT]; /* numbers given out */
    const char *skip_to;   /* label at which the usual way goes on; NULL: it is here */
    size_t skip_chars;
};

/* ---- tokens */

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$';
}

/* Length of a register's name at s, 0 if there is none. */
static size_t reg_chars(const char *s, enum reg_class *class, int *number)
{
    if (*s != '%')
        return 0;
    size_t letters = 1;
    while (isalpha((unsigned char)s[letters]))
        letters++;
    for (int c = 0; c < CLASS_COUNT; c++) {
        if (strlen(classes[c].llvm) != letters ||
            strncmp(s, classes[c].llvm, letters) != 0 ||
            !isdigit((unsigned char)s[letters]))
            continue;
        char *end;
        *class = (enum reg_class)c;
        *number = (int)strtol(s + letters, &end, 10);
        return (size_t)(end - s);
    }
    return 0;
}

/* LLVM counts its registers from 1 on, class by class. */
static int *found_slot(struct text *t, enum reg_class class, int number)
{
    int cap = t->found_cap[class];
    if (number >= cap) {
        const int *old = t->found[class];
        int more = number < 128 ? 256 : 2 * number;
        t->found[class] = ARENA_ARRAY(t->arena, int, (size_t)more);
        if (old)
            memcpy(t->found[class], old, (size_t)cap * sizeof *old);
        t->found_cap[class] = more;
    }
    return &t->found[class][number];
}

/* Index: the array may move when one is added. */
static int find_reg(struct text *t, enum reg_class class, int number)
{
    int *slot = found_slot(t, class, number);
    if (*slot)
        return *slot - 1;
    if (t->reg_count == t->reg_cap) {
        struct reg *old = t->regs;
        t->reg_cap = t->reg_cap ? t->reg_cap * 2 : 256;
        t->regs = ARENA_ARRAY(t->arena, struct reg, (size_t)t->reg_cap);
        if (old)
            memcpy(t->regs, old, (size_t)t->reg_count * sizeof *old);
    }
    t->regs[t->reg_count] = (struct reg){.class = class, .number = number, .first = -1};
    *slot = ++t->reg_count;
    return t->reg_count - 1;
}

/* Is the register at `at` of `line` written there?  Destinations stand before the first
 * comma, or within a first pair of braces; stores and branches have none. */
static bool is_written(const struct line *line, size_t at)
{
    const char *s = line->text;
    if (strncmp(s, "st.", 3) == 0 || strncmp(s, "bra", 3) == 0 || *s == '@')
        return false;
    size_t start = 0;
    while (start < line->chars && !isspace((unsigned char)s[start]))
        start++;
    while (start < line->chars && isspace((unsigned char)s[start]))
        start++;
    const char *end =
        memchr(s + start, s[start] == '{' ? '}' : ',', line->chars - start);
    return at >= start && (!end || s + at < end);
}

/* ---- lines */

static const char *skip_blanks(const char *s, const char *end)
{
    while (s < end && isspace((unsigned char)*s))
        s++;
    return s;
}

static bool starts(const struct line *l, const char *word)
{
    size_t chars = strlen(word);
    return l->chars >= chars && strncmp(l->text, word, chars) == 0;
}

/* "@in NAME %r1" */
static bool read_mark(struct text *t, struct line *l)
{
    l->is_in = starts(l, "@in ");
    l->is_out = starts(l, "@out ");
    if (!l->is_in && !l->is_out)
        return true;
    const char *name = l->text + (l->is_in ? 4 : 5);
    const char *blank = memchr(name, ' ', l->chars - (size_t)(name - l->text));
    enum reg_class class;
    int number;
    if (!blank || !reg_chars(blank + 1, &class, &number))
        return false;
    l->mark = arena_strndup(t->arena, name, (size_t)(blank - name));
    l->reg = find_reg(t, class, number);
    return true;
}

/* The function's body, without what only LLVM or an assembler needs. */
static bool read_lines(struct text *t, const char *ptx, const char *function)
{
    const char *head =
        strstr(ptx, arena_printf(t->arena, ".visible .func %s()", function));
    const char *body = head ? strstr(head, "\n{\n") : NULL;
    const char *end = body ? strstr(body, "\n}\n") : NULL;
    if (!end)
        return false;
    int cap = 0;
    for (const char *s = body; s < end; s++)
        cap += *s == '\n';
    t->lines = ARENA_ARRAY(t->arena, struct line, (size_t)cap + 1);
    for (const char *s = body + 3; s < end;) {
        const char *stop = memchr(s, '\n', (size_t)(end - s));
        stop = stop ? stop : end;
        struct line l = {.text = skip_blanks(s, stop)};
        const char *comment = NULL;
        for (const char *c = l.text; c + 1 < stop && !comment; c++)
            if (c[0] == '/' && c[1] == '/')
                comment = c;
        l.chars = (size_t)((comment ? comment : stop) - l.text);
        while (l.chars && isspace((unsigned char)l.text[l.chars - 1]))
            l.chars--;
        s = stop + 1;
        if (l.chars == 0 || starts(&l, ".reg") || starts(&l, ".loc") ||
            starts(&l, "ret;"))
            continue;
        l.is_label = l.text[l.chars - 1] == ':';
        if (!read_mark(t, &l))
            return false;
        t->lines[t->line_count++] = l;
    }
    return true;
}

static void note_use(struct reg *r, int line, bool is_write)
{
    if (is_write)
        r->defs++;
    else
        r->is_read = true;
    if (r->first < 0)
        r->first = line;
    r->last = line;
}

static void read_uses(struct text *t)
{
    for (int i = 0; i < t->line_count; i++) {
        struct line *l = &t->lines[i];
        if (l->is_in || l->is_out) {
            assert(t->regs);
            struct reg *r = &t->regs[l->reg];
            note_use(r, i, l->is_in);
            r->is_in = r->is_in || l->is_in;
            continue;
        }
        for (size_t at = 0; at < l->chars; at++) {
            enum reg_class class;
            int number;
            size_t chars = reg_chars(l->text + at, &class, &number);
            if (!chars)
                continue;
            int reg = find_reg(t, class, number);
            assert(t->regs);
            note_use(&t->regs[reg], i, is_written(l, at));
            at += chars - 1;
        }
    }
}

/* ---- names */

/* An incoming register takes the template's name if nothing writes it again, an
 * outgoing one unless it is also another's; the marks that are left become moves. */
static void name_marked(struct text *t)
{
    for (int i = 0; i < t->line_count; i++) {
        struct line *l = &t->lines[i];
        if (!l->is_in && !l->is_out)
            continue;
        assert(t->regs);
        struct reg *r = &t->regs[l->reg];
        if (r->name || (l->is_in && r->defs > 1))
            continue;
        if (l->is_out && r->is_in)
            continue;
        r->name = l->mark;
        r->is_out = l->is_out;
        l->text = NULL; /* gone */
    }
}

static const char *name_of(struct text *t, struct reg *r)
{
    if (!r->name) {
        r->is_ours = true;
        r->name = arena_printf(t->arena, "%s_%s%d", t->prefix, classes[r->class].ours,
                               t->next[r->class]++);
    }
    return r->name;
}

/* "$L__BB1_2" */
static size_t label_chars(const char *s)
{
    if (strncmp(s, "$L__", 4) != 0)
        return 0;
    size_t chars = 4;
    while (is_word(s[chars]))
        chars++;
    return chars;
}

static void write_name(struct text *t, const char *s, size_t *at, struct buf *out)
{
    enum reg_class class;
    int number;
    size_t chars = reg_chars(s, &class, &number);
    if (chars) {
        int reg = find_reg(t, class, number);
        assert(t->regs);
        buf_puts(out, name_of(t, &t->regs[reg]));
    } else if ((chars = label_chars(s)) != 0) {
        const char *last = memchr(s + 4, '_', chars - 4);
        const char *id = last ? last + 1 : s + 4;
        for (const char *c = t->prefix; *c; c++)
            buf_printf(out, "%c", toupper((unsigned char)*c));
        buf_puts(out, "_");
        buf_add(out, id, chars - (size_t)(id - s));
    } else {
        chars = 1;
        if (*s == '\t')
            buf_puts(out, " ");
        else
            buf_add(out, s, 1);
    }
    *at += chars;
}

enum { OPERAND_COLUMN = 24 };

/* Pairs of registers are registers: no instruction. */
static bool is_renaming(const struct line *l)
{
    return starts(l, "mov.b64") && memchr(l->text, '{', l->chars);
}

/* The only branches are those of gen/llvm/quantize.c, over a block for rare values. */
static void follow(struct text *t, const struct line *l)
{
    const char *label = memchr(l->text, '$', l->chars);
    if (l->is_label && t->skip_to && strncmp(l->text, t->skip_to, t->skip_chars) == 0)
        t->skip_to = NULL;
    if (*l->text == '@' && label) {
        t->skip_to = label;
        t->skip_chars = label_chars(label);
    }
}

static void write_line(struct text *t, const struct line *l, struct splice *out)
{
    struct buf *b = &out->body;
    size_t at = 0, start = b->bytes;
    follow(t, l);
    if (!l->is_label) {
        buf_puts(b, "  ");
        out->insns += !is_renaming(l);
        out->rare_insns += t->skip_to && !is_renaming(l) && *l->text != '@';
    }
    bool in_opcode = !l->is_label;
    while (at < l->chars) {
        if (in_opcode && l->text[at] == '\t') { /* operands start in one column */
            while (at < l->chars && isspace((unsigned char)l->text[at]))
                at++;
            do
                buf_puts(b, " ");
            while (b->bytes - start < OPERAND_COLUMN);
            in_opcode = false;
            continue;
        }
        if (in_opcode && l->text[at] == ' ' && b->data[b->bytes - 1] == ' ') {
            at++;
            continue;
        }
        write_name(t, l->text + at, &at, b);
    }
    buf_puts(b, "\n");
}

static void write_move(struct text *t, const struct line *l, struct splice *out)
{
    struct reg *r = &t->regs[l->reg];
    if (l->is_in && !r->is_read)
        return;
    const char *type = classes[r->class].type, *name = name_of(t, r);
    char opcode[16];
    snprintf(opcode, sizeof opcode, "mov.%s", type);
    buf_printf(&out->body, "  %-*s%s, %s;\n", OPERAND_COLUMN - 2, opcode,
               l->is_in ? name : l->mark, l->is_in ? l->mark : name);
    out->insns++;
}

/* ---- how many registers hold a value at once */

/* The registers of a line, `most` of them; how many. */
static int regs_of(struct text *t, const struct line *l, int *found, int most)
{
    int count = 0;
    for (size_t at = 0; at < l->chars && count < most; at++) {
        enum reg_class class;
        int number;
        size_t chars = reg_chars(l->text + at, &class, &number);
        if (!chars)
            continue;
        found[count++] = find_reg(t, class, number);
        at += chars - 1;
    }
    return count;
}

/* "mov.b32 %r7, 0f3F000000;" */
static bool is_constant_move(const struct line *l)
{
    const char *comma = memchr(l->text, ',', l->chars);
    return starts(l, "mov.b") && comma && comma[1] == ' ' &&
           (isdigit((unsigned char)comma[2]) || comma[2] == '-');
}

/* Words of registers: two each, a set of them is one register of the machine. */
struct words {
    int *parent, *first, *last;
};

static int root_of(const struct words *w, int word)
{
    while (w->parent[word] != word)
        word = w->parent[word] = w->parent[w->parent[word]];
    return word;
}

static void unite(struct words *w, int a, int b)
{
    a = root_of(w, a);
    b = root_of(w, b);
    w->parent[b] = a;
    w->first[a] = w->first[b] < w->first[a] ? w->first[b] : w->first[a];
    w->last[a] = w->last[b] > w->last[a] ? w->last[b] : w->last[a];
}

/* A constant is part of the instruction that uses it; a pair of constants is not, see
 * gen/llvm/splice.h.  Other pairs and their halves are the same words. */
static void share_words(struct text *t, struct words *w)
{
    for (int i = 0; i < t->line_count; i++) {
        const struct line *l = &t->lines[i];
        int regs[3];
        if (l->is_in || l->is_out)
            continue;
        if (is_constant_move(l) && regs_of(t, l, regs, 1) == 1)
            t->regs[regs[0]].is_constant = t->regs[regs[0]].defs == 1;
        if (!is_renaming(l) || regs_of(t, l, regs, 3) != 3)
            continue;
        bool makes = t->regs[regs[0]].class == CLASS_B64;
        int pair = regs[makes ? 0 : 2];
        const int halves[] = {regs[makes ? 1 : 0], regs[makes ? 2 : 1]};
        if (t->regs[halves[0]].is_constant && t->regs[halves[1]].is_constant)
            t->regs[pair].is_constant = true;
        for (int k = 0; k < 2 && halves[0] != halves[1]; k++)
            unite(w, 2 * pair + k, 2 * halves[k]);
    }
}

static int count_live_words(struct text *t, bool constants)
{
    const size_t words = 2 * (size_t)t->reg_count + 1;
    struct words w = {ARENA_ARRAY(t->arena, int, words),
                      ARENA_ARRAY(t->arena, int, words),
                      ARENA_ARRAY(t->arena, int, words)};
    for (int i = 0; i < 2 * t->reg_count; i++) {
        w.parent[i] = i;
        w.first[i] = t->regs[i / 2].first;
        /* The template stores what goes out, behind the block. */
        w.last[i] = t->regs[i / 2].is_out ? t->line_count : t->regs[i / 2].last;
    }
    share_words(t, &w);
    /* How many more words there are behind a line than before it. */
    int *change = ARENA_ARRAY(t->arena, int, (size_t)t->line_count + 1);
    for (int i = 0; i < 2 * t->reg_count; i++) {
        const struct reg *r = &t->regs[i / 2];
        int own = classes[r->class].words;
        if (r->is_constant)
            own = constants ? own / 2 : 0;
        if (i % 2 >= own || root_of(&w, i) != i)
            continue;
        change[w.first[i]]++;
        change[w.last[i]]--;
    }
    int most = 0, live = 0;
    for (int i = 0; i < t->line_count; i++) {
        const struct line *l = &t->lines[i];
        live +=
            change[i] + (l->is_out && l->text); /* a move to one of the template's */
        most = live > most ? live : most;
    }
    return most;
}

bool splice_function(struct arena *a, const char *ptx, const char *function,
                     const char *prefix, bool constants, struct splice *out)
{
    struct text t = {.arena = a, .prefix = prefix};
    *out = (struct splice){0};
    buf_init(&out->body, a);
    buf_init(&out->regs, a);
    buf_puts(&out->body, "");
    buf_puts(&out->regs, "");
    if (!read_lines(&t, ptx, function))
        return false;
    read_uses(&t);
    name_marked(&t);
    for (int i = 0; i < t.line_count; i++) {
        const struct line *l = &t.lines[i];
        if (l->is_in || l->is_out) {
            if (l->text)
                write_move(&t, l, out);
        } else {
            write_line(&t, l, out);
        }
    }
    for (int c = 0; c < CLASS_COUNT; c++)
        if (t.next[c])
            buf_printf(&out->regs, "  .reg .%-6s %s_%s<%d>;\n", classes[c].type, prefix,
                       classes[c].ours, t.next[c]);
    out->live_words = count_live_words(&t, constants);
    return true;
}
