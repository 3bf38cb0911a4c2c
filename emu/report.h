/* report.h - what is wrong with a kernel: one error ends the launch, warnings do not.
 *
 * Each names kernel, PTX line and instruction, block, warp, lanes, and what was wrong;
 * then come notes (the other party, a number), then how to mend it.  The launcher
 * writes them when the launch has ended.  Clusters run on several host threads; of
 * their errors the one of the cluster with the lowest number is kept, and of warnings
 * at one place likewise, so that a run repeats itself. */
#ifndef FP4EMU_REPORT_H
#define FP4EMU_REPORT_H

#include "emu/checks.h"
#include "emu/machine.h"

struct report *report_new(void);
void report_free(struct report *r);
void report_reset(struct report *r); /* as if it were new */
/* Of the error; CHECK_NONE: the launch was fine, but for warnings. */
enum check report_check(const struct report *r);
/* Has the kernel come to a standstill, as far as the error tells? */
bool report_is_hang(const struct report *r);
/* All of it, warnings first, several lines that end in a newline; "" when there is
 * nothing.  Valid until the next call or report. */
const char *report_text(struct report *r);
/* The same as JSON, one object a line, with `more` ("\"a\":1,\"b\":2", or "") in each:
 *     {"check":4,"level":"error","kernel":"k","file":"k.ptx","line":7,
 *      "opcode":"ld.shared.b32","block":[0,0,0],"rank":0,"warp":1,"lanes":"0x1",
 *      "text":"...","others":[{"role":"the copy","line":5,...}],"notes":["..."],
 *      "mend":"..."}
 * docs/emulator-checks.md lists the fields. */
const char *report_json(struct report *r, const char *more);
/* PTX line to blame for the error, 0: unknown. */
int report_line(const struct report *r);
/* How many warnings there are, and whether one is of this check in this line. */
int report_warnings(const struct report *r);
bool report_has_warning(const struct report *r, enum check check, int line);

/* An error is recorded unless there is one already of this or a lower cluster:
 * FLOW_STOP, so that `return report(...)` ends an exec_ function.  A warning is
 * recorded once for a place, and one that is switched off not at all: FLOW_NEXT, the
 * launch goes on.  Only SOFT checks (checks.def) need to look at what comes back.  `w`
 * may be NULL (end of the grid). */
enum flow report(struct grid *g, struct warp *w, enum check check, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
/* As report(), where this case of a check has another level than the others. */
enum flow report_at(struct grid *g, struct warp *w, enum check check,
                    enum check_level level, const char *fmt, ...) PRINTF_LIKE(5, 6);
/* Is there anything to do at all when this check fires?  Spares the search for whom to
 * blame. */
bool report_wants(const struct grid *g, enum check check);
/* A further line of the newest report: the other party, a number, a hint. */
void report_note(struct grid *g, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Another thread that the newest report is about, by its instruction: a line "ROLE line
 * 7 (opcode) block (0,0,0) warp 1 lanes 0x1", and a field of the JSON. */
struct report_party {
    const struct ptx_insn *insn; /* NULL: not known */
    uint32_t block[3];
    uint32_t lanes; /* 0: not told */
    int rank;       /* of the CTA in its cluster; -1: it is alone there */
    int warp;
};
void report_party_at(struct grid *g, const char *role, const struct report_party *p);
void report_party(struct grid *g, const char *role, const struct warp *w, uint32_t pc,
                  uint32_t lanes);
/* The newest report is of a kernel that cannot go on, whatever its check is called. */
void report_hang(struct grid *g);
/* A warning of this check at this instruction has come to something: an error. */
void report_raise(struct grid *g, enum check check, uint32_t pc);
/* In place of the sentence that checks.def has. */
void report_mend(struct grid *g, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* "line 212 (tcgen05.mma.cta_group::1...) block (3,0,0) warp 5 lanes 0x1" */
const char *report_place(const struct warp *w, uint32_t pc, char *text, size_t bytes);
/* The same without lanes: who issued something earlier, and is elsewhere now. */
const char *report_issuer(const struct warp *w, uint32_t pc, char *text, size_t bytes);

#endif
