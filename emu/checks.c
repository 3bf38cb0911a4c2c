#include "emu/checks.h"

#include <stdio.h>
#include <string.h>

#include "core/base.h"

enum how { SOFT, HARD };

static const struct row {
    int number;
    enum check_level level;
    enum how how;
    const char *title, *mend;
} rows[] = {
#define TITLE(number, title) (number) < 100 ? "check " #number ", " title : title
#define CHECK_ROW(number, id, level, how, title, mend)                                 \
    {number, CHECK_IS_##level, how, TITLE(number, title), mend},
#include "emu/checks.def"
#undef CHECK_ROW
};

static const struct row *row_of(int number)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (rows[i].number == number)
            return &rows[i];
    return NULL;
}

const char *check_title(enum check check)
{
    const struct row *r = row_of((int)check);
    return r ? r->title : "error";
}

const char *check_mend(enum check check)
{
    const struct row *r = row_of((int)check);
    return r ? r->mend : "";
}

enum check_level check_level(enum check check)
{
    const struct row *r = row_of((int)check);
    return r ? r->level : CHECK_IS_ERROR;
}

const char *check_level_word(enum check_level level)
{
    static const char *const words[] = {"error", "warning", "pedantic", "remark"};
    return words[level];
}

static enum check_action action_of(const struct check_set *s, enum check_level level)
{
    switch (level) {
    case CHECK_IS_ERROR:
        return CHECK_STOP;
    case CHECK_IS_WARNING:
        return CHECK_WARN;
    case CHECK_IS_PEDANTIC:
        return s && s->pedantic ? CHECK_WARN : CHECK_OFF;
    case CHECK_IS_REMARK:
        return s && s->remarks ? CHECK_WARN : CHECK_OFF;
    }
    return CHECK_STOP;
}

enum check_action check_action(const struct check_set *s, enum check check)
{
    if (s && s->is_set && (int)check >= 0 && (int)check <= CHECK_LAST)
        return (enum check_action)s->action[check];
    return action_of(s, check_level(check));
}

enum check_action check_action_at(const struct check_set *s, enum check check,
                                  enum check_level level)
{
    if (s && (s->off || s->is_switched[check]))
        return check_action(s, check);
    return action_of(s, level);
}

/* ---- FP4EMU_CHECK */

static bool set_level(struct check_set *s, const char *word, size_t length)
{
    static const char *const words[] = {"off", "default", "all", "pedantic"};
    size_t n = 0;
    while (n < COUNT_OF(words) &&
           (strlen(words[n]) != length || memcmp(words[n], word, length) != 0))
        n++;
    if (n == COUNT_OF(words))
        return false;
    *s = (struct check_set){
        .is_set = true, .off = n == 0, .remarks = n >= 2, .pedantic = n == 3};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct row *r = &rows[i];
        bool out = n == 0 && r->how == SOFT;
        s->action[r->number] = (uint8_t)(out ? CHECK_OFF : action_of(s, r->level));
    }
    return true;
}

static bool set_switch(struct check_set *s, const char *word, size_t length, char *why,
                       size_t why_bytes)
{
    char copy[24];
    int number = 0, used = 0;
    char sign = '=';
    snprintf(copy, sizeof copy, "%.*s", (int)length, word);
    const char *p = copy;
    if (*p == '+' || *p == '-')
        sign = *p++;
    if (length >= sizeof copy || sscanf(p, "%3d%n", &number, &used) != 1 ||
        p[0] == '+' || p[0] == '-') {
        snprintf(why, why_bytes, "\"%.*s\" is no level and no switch", (int)length,
                 word);
        return false;
    }
    p += used;
    const struct row *r = number < 100 ? row_of(number) : NULL;
    if (!r) {
        snprintf(why, why_bytes, "there is no check %d", number);
        return false;
    }
    enum check_action a = CHECK_OFF;
    if (sign == '+' && *p == '\0')
        a = r->level == CHECK_IS_ERROR ? CHECK_STOP : CHECK_WARN;
    else if (sign == '=' && strcmp(p, "=error") == 0)
        a = CHECK_STOP;
    else if (sign == '=' && strcmp(p, "=warn") == 0)
        a = CHECK_WARN;
    else if (sign != '-' || *p != '\0') {
        snprintf(why, why_bytes, "\"%.*s\" is no switch: +N, -N, N=error, N=warn",
                 (int)length, word);
        return false;
    }
    if (r->how == HARD && a != CHECK_STOP) {
        snprintf(why, why_bytes,
                 "check %d cannot be left out: the emulator could not go on", number);
        return false;
    }
    s->action[number] = (uint8_t)a;
    s->is_switched[number] = true;
    return true;
}

bool check_set_parse(const char *text, struct check_set *s, char *why, size_t why_bytes)
{
    bool first = true;
    why[0] = '\0';
    set_level(s, "default", 7);
    for (const char *p = text;; first = false) {
        size_t length = strcspn(p, ",");
        if (!(first && set_level(s, p, length)) &&
            !set_switch(s, p, length, why, why_bytes))
            return false;
        if (p[length] == '\0')
            return true;
        p += length + 1;
    }
}
