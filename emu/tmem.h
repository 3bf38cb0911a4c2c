/* tmem.h - tensor memory: who owns its columns, and who is at work on its cells.
 *
 * Cells are watched in pieces of one column by 32 lanes, the least that an instruction
 * touches, mostly.  Every tcgen05 operation gets a number from the log of its CTA or
 * CTA pair; a piece remembers the numbers of its last writer and last reader.  Who
 * knows that they are complete is the affair of hb.h.  PTX ISA 9.0, "Tensor Memory
 * Consistency Model". */
#ifndef FP4EMU_TMEM_H
#define FP4EMU_TMEM_H

#include "emu/machine.h"
#include "emu/mma_fp4.h"

#define TMEM_QUARTERS 4
#define TMEM_LOG_OPS 1024 /* older operations count as done */

enum tmem_kind { TMEM_LD, TMEM_ST, TMEM_CP, TMEM_MMA };

struct tmem_op {
    uint32_t number; /* from 1; 0: none */
    uint8_t kind, lane;
    bool read;   /* a load has seen what it wrote */
    bool starts; /* MMA: overwrites its accumulator, where others add to it */
    uint16_t acc_col, acc_cols; /* MMA: its accumulator */
    struct warp *issuer;
    uint32_t pc;
};

struct tmem_log {
    uint32_t issued;
    struct tmem_op ops[TMEM_LOG_OPS];
};

/* Per CTA, in cta->pipe. */
struct tmem_state {
    int group;            /* of the first instruction that named one; 0: none yet */
    struct tmem_log *log; /* of a pair: the even CTA's */
    struct tmem_log own_log;
    uint32_t writer[TMEM_QUARTERS][TMEM_COLS]; /* 0: nobody since the allocation */
    uint32_t reader[TMEM_QUARTERS][TMEM_COLS];
    uint32_t committed[32]; /* by warp: a commit stands behind these */
    uint32_t last_alloc_cols;
    uint32_t asked_cols; /* allocation of a pair: asked for, not yet granted */
    bool granted;        /* ... the column is there, the caller has to take it */
    uint32_t granted_col;
    enum mma_isa isa;
};

/* Made at first use; checks that a kernel keeps to one .cta_group and, for 2, that the
 * CTA has a peer.  NULL after a report. */
struct tmem_state *tmem_state(struct warp *w, int group);
/* Check 22 for what works in both CTAs of a pair. */
bool tmem_peer_lives(struct warp *w, int group);
/* Without a report, whatever group: NULL before the first tmem_state(). */
struct tmem_state *tmem_state_if_any(struct cta *c);
struct cta *tmem_peer(struct cta *c); /* other half of the pair; NULL: there is none */

static inline uint32_t *tmem_column(struct cta *c, uint32_t col)
{
    return c->tmem + (size_t)col * TMEM_LANES;
}

/* Are these columns in one live allocation?  False after a report (check 17). */
bool tmem_owned(struct warp *w, struct cta *c, uint32_t col, uint32_t cols,
                const char *what);

/* A piece of tensor memory of one CTA. */
struct tmem_area {
    struct cta *cta;
    uint32_t col, cols;
    uint32_t quarters; /* mask */
};

/* Gives the operation a number. */
struct tmem_op *tmem_log(struct tmem_state *s, struct warp *w, int lane,
                         enum tmem_kind kind);
/* NULL: none, or forgotten. */
struct tmem_op *tmem_find(struct tmem_log *log, uint32_t number);
/* tcgen05.wait: these lanes know that the warp's loads or stores are done. */
void tmem_waited(struct warp *w, enum tmem_kind kind, uint32_t lanes);
/* tcgen05.fence::before_thread_sync, or ::after_thread_sync. */
void tmem_fenced(struct warp *w, bool before);
/* A commit of all that the warp has issued. */
void tmem_committed(struct warp *w);

/* ---- check_tmem.c */

/* Checks 12, 13, 15, 20 and 31 on what the operation reads or writes, then takes note
 * of it.  `what` names the cells: "the accumulator".  False after a report. */
bool tmem_reads(struct warp *w, struct tmem_op *op, struct tmem_area a,
                const char *what);
bool tmem_writes(struct warp *w, struct tmem_op *op, struct tmem_area a,
                 const char *what);
/* Check 18, before the columns are freed: is nobody still at work on them? */
bool tmem_idle(struct warp *w, struct tmem_area a);

/* ---- allocation, tmem_alloc.c */

exec_fn tmem_alloc, tmem_dealloc, tmem_relinquish;

#endif
