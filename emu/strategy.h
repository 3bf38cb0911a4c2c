/* strategy.h - how the schedules of a launch are chosen: FP4EMU_STRATEGY as a value.
 *
 *     eager           asynchronous work completes when it is issued; warps run in turn,
 *                     each until it blocks
 *     lazy            it completes when nothing else can run, oldest first
 *     reverse         likewise, newest first where the order is free
 *     random[:P]      at each instruction that others can see, another warp or
 * operation goes on with probability P (0.3) pct[:D[:N]]     random priorities, D - 1
 * of them changed within the first N such instructions (3, 4096) starve:W        warps
 * W (5, 0-3, or a label that they pass) run only when nothing else can delay:OP[:N] the
 * Nth operation of a kind (1) is held back as long as it may be replay:FILE     the
 * choices that FP4EMU_RECORD wrote, or some of them */
#ifndef FP4EMU_STRATEGY_H
#define FP4EMU_STRATEGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum strategy {
    STRATEGY_EAGER,
    STRATEGY_LAZY,
    STRATEGY_REVERSE,
    STRATEGY_RANDOM,
    STRATEGY_PCT,
    STRATEGY_STARVE,
    STRATEGY_DELAY,
    STRATEGY_REPLAY,
};

#define STRATEGY_MAX_TEXT 4096

/* What stands behind the name. */
struct rule {
    uint32_t share;         /* random: probability of a change, in millionths */
    uint32_t changes, span; /* pct: depth, and instructions in which it changes */
    uint32_t first, last;   /* starve: warps of each block; a label has last < first */
    uint32_t op, number;    /* delay: enum async_kind, and which one from 1 on */
    char name[128];         /* starve: the label */
    char path[STRATEGY_MAX_TEXT]; /* replay */
};

/* "pct:3" into its parts.  False: `why` says what is wrong, without the text itself. */
bool strategy_parse(const char *text, enum strategy *strategy, struct rule *rule,
                    char *why, size_t why_bytes);
/* The text again, complete: "random:0.3". */
const char *strategy_text(enum strategy strategy, const struct rule *rule, char *text,
                          size_t bytes);
/* The forms of the table above, for messages: "eager, lazy, ...". */
extern const char strategy_forms[];

/* The label that starve names; NULL: none. */
static inline const char *rule_label(enum strategy s, const struct rule *r)
{
    return s == STRATEGY_STARVE && r->last < r->first ? r->name : NULL;
}

/* Does asynchronous work wait until nothing else can run? */
static inline bool strategy_is_late(enum strategy s)
{
    return s == STRATEGY_LAZY || s == STRATEGY_REVERSE;
}

/* Is each choice made anew, instruction by instruction? */
static inline bool strategy_explores(enum strategy s)
{
    return s == STRATEGY_RANDOM || s == STRATEGY_PCT || s == STRATEGY_REPLAY;
}

#endif
