#include "emu/strategy.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emu/choice.h"

const char strategy_forms[] = "eager, lazy, reverse, random[:P], pct[:D[:N]], "
                              "starve:W, delay:OP[:N], replay:FILE";

#define MAX_DEPTH 64
#define MAX_SPAN (1u << 30)

static const char *const names[] = {
    [STRATEGY_EAGER] = "eager",     [STRATEGY_LAZY] = "lazy",
    [STRATEGY_REVERSE] = "reverse", [STRATEGY_RANDOM] = "random",
    [STRATEGY_PCT] = "pct",         [STRATEGY_STARVE] = "starve",
    [STRATEGY_DELAY] = "delay",     [STRATEGY_REPLAY] = "replay",
};

/* Of delay, by enum async_kind. */
static const char *const op_names[] = {
    [ASYNC_COPY_IN] = "tma_load", [ASYNC_COPY_OUT] = "tma_store",
    [ASYNC_MMA] = "mma",          [ASYNC_TC_CP] = "tc_cp",
    [ASYNC_COMMIT] = "commit",    [ASYNC_CP] = "cp_async",
    [ASYNC_WGMMA] = "wgmma",
};

static bool refuse(char *why, size_t bytes, const char *text)
{
    snprintf(why, bytes, "%s", text);
    return false;
}

/* A whole number in front of the end of the text, or of `end` and something more; moves
 * *p behind it. */
static bool number(const char **p, char end, uint32_t least, uint32_t most,
                   uint32_t *out)
{
    char *stop;
    if (!isdigit((unsigned char)**p))
        return false;
    errno = 0;
    unsigned long n = strtoul(*p, &stop, 10);
    if (errno || n < least || n > most || (*stop && (*stop != end || !stop[1])))
        return false;
    *out = (uint32_t)n;
    *p = *stop ? stop + 1 : stop;
    return true;
}

/* By hand: strtod would ask the program's locale for its decimal point. */
static bool parse_random(const char *p, struct rule *r, char *why, size_t bytes)
{
    uint32_t scale = 1000000;
    r->share = p ? 0 : 300000;
    if (!p)
        return true;
    bool ok = *p != '\0';
    if (*p == '0' || *p == '1')
        r->share = (uint32_t)(*p++ - '0') * scale;
    ok = ok && (*p == '\0' || *p++ == '.');
    for (; ok && *p; p++) {
        ok = isdigit((unsigned char)*p) != 0;
        scale /= 10;
        if (ok)
            r->share += (uint32_t)(*p - '0') * scale;
    }
    if (!ok || r->share < 1 || r->share > 1000000)
        return refuse(why, bytes, "random:P takes a probability above 0, at most 1");
    return true;
}

static bool parse_pct(const char *p, struct rule *r, char *why, size_t bytes)
{
    r->changes = 3;
    r->span = 4096;
    if (!p || (number(&p, ':', 1, MAX_DEPTH, &r->changes) &&
               (!*p || (number(&p, '\0', 1, MAX_SPAN, &r->span) && !*p))))
        return true;
    return refuse(why, bytes, "pct:D[:N] takes a depth of 1 to 64 and a span");
}

static bool parse_starve(const char *p, struct rule *r, char *why, size_t bytes)
{
    if (p && isdigit((unsigned char)*p)) {
        bool ok = number(&p, '-', 0, 31, &r->first);
        r->last = r->first;
        if (ok && *p)
            ok = number(&p, '\0', r->first, 31, &r->last);
        return ok || refuse(why, bytes, "starve:W takes a warp of 0 to 31, or W-V");
    }
    if (!p || !*p || strlen(p) >= sizeof r->name)
        return refuse(why, bytes, "starve:W needs a warp, as in 5 or 0-3, or a label");
    r->first = 1;
    r->last = 0;
    snprintf(r->name, sizeof r->name, "%s", p);
    return true;
}

static bool parse_delay(const char *p, struct rule *r, char *why, size_t bytes)
{
    size_t chars = p ? strcspn(p, ":") : 0;
    r->number = 1;
    for (uint32_t i = 0; i < COUNT_OF(op_names); i++) {
        if (chars == 0 || strlen(op_names[i]) != chars ||
            strncmp(op_names[i], p, chars) != 0)
            continue;
        r->op = i;
        p += chars;
        if (!*p)
            return true;
        p++;
        if (number(&p, '\0', 1, UINT32_MAX, &r->number) && !*p)
            return true;
    }
    return refuse(why, bytes,
                  "delay:OP[:N] takes tma_load, tma_store, mma, tc_cp, commit or "
                  "cp_async, and a number from 1 on");
}

static bool parse_replay(const char *p, struct rule *r, char *why, size_t bytes)
{
    if (!p || !*p || strlen(p) >= sizeof r->path)
        return refuse(why, bytes, "replay:FILE needs a file");
    snprintf(r->path, sizeof r->path, "%s", p);
    FILE *f = fopen(p, "r");
    if (!f)
        return refuse(why, bytes, strerror(errno));
    fclose(f);
    struct deviations d;
    bool ok = deviations_read(&d, p, 0, why, bytes);
    deviations_free(&d);
    return ok;
}

bool strategy_parse(const char *text, enum strategy *strategy, struct rule *rule,
                    char *why, size_t why_bytes)
{
    size_t chars = strcspn(text, ":");
    const char *rest = text[chars] ? text + chars + 1 : NULL;
    int found = -1;
    for (int i = 0; i < (int)COUNT_OF(names); i++)
        if (strlen(names[i]) == chars && strncmp(names[i], text, chars) == 0)
            found = i;
    memset(rule, 0, sizeof *rule);
    if (found < 0)
        return refuse(why, why_bytes, "");
    *strategy = (enum strategy)found;
    switch (*strategy) {
    case STRATEGY_EAGER:
    case STRATEGY_LAZY:
    case STRATEGY_REVERSE:
        return !rest || refuse(why, why_bytes, "it takes nothing behind the name");
    case STRATEGY_RANDOM:
        return parse_random(rest, rule, why, why_bytes);
    case STRATEGY_PCT:
        return parse_pct(rest, rule, why, why_bytes);
    case STRATEGY_STARVE:
        return parse_starve(rest, rule, why, why_bytes);
    case STRATEGY_DELAY:
        return parse_delay(rest, rule, why, why_bytes);
    case STRATEGY_REPLAY:
        return parse_replay(rest, rule, why, why_bytes);
    }
    return false;
}

const char *strategy_text(enum strategy strategy, const struct rule *rule, char *text,
                          size_t bytes)
{
    const char *name = names[strategy];
    switch (strategy) {
    case STRATEGY_EAGER:
    case STRATEGY_LAZY:
    case STRATEGY_REVERSE:
        snprintf(text, bytes, "%s", name);
        break;
    case STRATEGY_RANDOM:
        snprintf(text, bytes, "%s:%u.%06u", name, rule->share / 1000000,
                 rule->share % 1000000);
        break;
    case STRATEGY_PCT:
        snprintf(text, bytes, "%s:%u:%u", name, rule->changes, rule->span);
        break;
    case STRATEGY_STARVE:
        if (rule->last < rule->first)
            snprintf(text, bytes, "%s:%s", name, rule->name);
        else if (rule->last == rule->first)
            snprintf(text, bytes, "%s:%u", name, rule->first);
        else
            snprintf(text, bytes, "%s:%u-%u", name, rule->first, rule->last);
        break;
    case STRATEGY_DELAY:
        snprintf(text, bytes, "%s:%s:%u", name, op_names[rule->op], rule->number);
        break;
    case STRATEGY_REPLAY:
        snprintf(text, bytes, "%s:%s", name, rule->path);
        break;
    }
    return text;
}
