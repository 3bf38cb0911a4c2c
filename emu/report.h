/* report.h - the one report that ends a launch.
 *
 * Names kernel, PTX line and instruction, block, warp, lanes, and what was wrong.
 * Goes to stderr or to the file that FP4EMU_REPORT names when the launch ends (the
 * launcher does that).  Clusters run on several host threads; of their errors the one
 * of the cluster with the lowest number is kept, so that a run repeats itself. */
#ifndef FP4EMU_REPORT_H
#define FP4EMU_REPORT_H

#include "emu/machine.h"

enum check { /* numbers as in docs/emulator-checks.md */
             CHECK_NONE = 0,
             CHECK_UNFINISHED_COPY = 4,
             CHECK_STAGE_OVERWRITTEN = 5,
             CHECK_PHASE_OVERRUN = 7,
             CHECK_BYTE_COUNT = 8,
             CHECK_ARRIVAL_COUNT = 9,
             CHECK_BAD_BARRIER = 10,
             CHECK_TMEM_UNFINISHED = 12,
             CHECK_TMEM_OVERWRITTEN = 13,
             CHECK_TMEM_LEAK = 16,
             CHECK_TMEM_OUTSIDE = 17,
             CHECK_TMEM_IN_USE = 18,
             CHECK_LANE_QUARTER = 19,
             CHECK_UNINITIALISED = 20,
             CHECK_OUT_OF_BOUNDS = 21,
             CHECK_CTA_EXIT = 22,
             CHECK_STORE_SOURCE = 24,
             CHECK_DEADLOCK = 25,
             CHECK_DIVERGENCE = 26,
             CHECK_MEMBER_MASK = 27,
             CHECK_REGISTERS = 28,
             CHECK_DESCRIPTOR = 29,
             CHECK_SCALE_COPIES = 30,
             CHECK_SCALE_OVERLAP = 31,
             CHECK_NAMED_BARRIER = 32,
             CHECK_CLUSTER_BARRIER = 33,
             CHECK_TENSOR_MAP = 34,
             CHECK_ALIGNMENT = 35,
             CHECK_LAUNCH_CONTROL = 38,
             CHECK_COLLAPSED_WORK = 40,
             CHECK_TRAP = 100,       /* trap and brkpt: no hazard number */
             CHECK_ASSERT = 101,     /* __assertfail; its text has gone to stderr */
             CHECK_ARITHMETIC = 102, /* division of integers by zero */
             CHECK_OPERAND =
                 103, /* run-time operand outside what the instruction allows */
};

struct report *report_new(void);
void report_free(struct report *r);
/* CHECK_NONE: the launch was fine. */
enum check report_check(const struct report *r);
/* The whole report, several lines, ends in a newline; "" when there is none. */
const char *report_text(const struct report *r);
/* PTX line to blame, 0: unknown. */
int report_line(const struct report *r);

/* Records the launch's error unless there is one already of this or a lower cluster;
 * the first wins.  Always returns FLOW_STOP so that `return report(...)` ends an exec_
 * function.  `w` may be NULL (end of the grid). */
enum flow report(struct grid *g, struct warp *w, enum check check, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
/* A further line of the newest report: the other party, a number, a hint. */
void report_note(struct grid *g, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* "line 212 (tcgen05.mma.cta_group::1...) block (3,0,0) warp 5 lanes 0x1" */
const char *report_place(const struct warp *w, uint32_t pc, char *text, size_t bytes);
/* The same without lanes: who issued something earlier, and is elsewhere now. */
const char *report_issuer(const struct warp *w, uint32_t pc, char *text, size_t bytes);

#endif
