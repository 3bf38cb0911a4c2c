/* checks.h - the hazard checks: numbers, levels, and which of them are on.
 *
 * checks.def has one row for each; docs/emulator-checks.md explains them. */
#ifndef FP4EMU_CHECKS_H
#define FP4EMU_CHECKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum check {
    CHECK_NONE = 0,
#define CHECK_ROW(number, id, level, how, title, mend) CHECK_##id = number,
#include "emu/checks.def"
#undef CHECK_ROW
};

#define CHECK_LAST 104

enum check_level {
    CHECK_IS_ERROR,
    CHECK_IS_WARNING,
    CHECK_IS_PEDANTIC,
    CHECK_IS_REMARK
};

enum check_action { CHECK_OFF, CHECK_WARN, CHECK_STOP };

/* What is done when a check fires.  All zero: everything at its default. */
struct check_set {
    bool off; /* no hazard checks: nothing is recorded for them */
    bool is_set;
    bool remarks;
    bool pedantic; /* only what the manual promises counts as an order */
    uint8_t action[CHECK_LAST + 1];
    bool is_switched[CHECK_LAST + 1]; /* by its number */
};

/* "off", "default", "all" (remarks too) or "pedantic" (everything), then switches with
 * commas: +15 on, -3 off, 6=error, 4=warn.  False with the reason in `why`. */
bool check_set_parse(const char *text, struct check_set *s, char *why,
                     size_t why_bytes);
enum check_action check_action(const struct check_set *s, enum check check);
/* The same for a case of the check that has a level of its own. */
enum check_action check_action_at(const struct check_set *s, enum check check,
                                  enum check_level level);

/* "check 4, read of an unfinished copy"; "trap" where there is no number. */
const char *check_title(enum check check);
const char *check_mend(enum check check); /* one sentence, or "" */
enum check_level check_level(enum check check);
const char *check_level_word(enum check_level level);

#endif
