/* machine.h - grid, cluster, CTA, warp: the state that instructions change.
 *
 * One host thread runs one cluster at a time; clusters share only global memory.
 * Registers are structures of arrays: 32 lanes of one register lie side by side.
 * Every exec_ function executes one decoded instruction for a set of lanes.
 *
 * Semantics: PTX ISA 9.0; the decisions that it leaves open are in emu/README.md. */
#ifndef FP4EMU_MACHINE_H
#define FP4EMU_MACHINE_H

#include <stdatomic.h>
#include <string.h>

#include "core/ptx.h"
#include "emu/strategy.h"

#define WARP_LANES 32
#define ALL_LANES 0xffffffffu
#define SMEM_RESERVED_BYTES 1024 /* start of the shared window, for the system */
#define SMEM_RANK_SHIFT 24       /* a shared address carries the CTA's rank from here */
#define SMEM_OFFSET_MASK 0xffffffu
#define SMEM_POISON 0x7f /* what fresh shared and tensor memory holds: NaN as UE4M3 */
#define TMEM_LANES 128
#define TMEM_COLS 512
#define MAX_CLUSTER_CTAS 16

/* Generic addresses: these two windows lie where no host allocation can; all else is
 * global memory, at its host address.  The shared window takes rank and offset. */
#define SHARED_WINDOW 0x00fe000000000000u
#define LOCAL_WINDOW 0x00ff000000000000u
#define WINDOW_BYTES 0x0000000100000000u

struct op;
struct watch;
struct warp;
struct cta;
struct cluster;
struct grid;
struct mbar;
struct async_op;
struct decoder;
struct report;
struct view;
struct edit;
struct footprint;
struct hb;
struct hb_warp;
struct hb_mbar;
struct hb_event;
struct hb_grid;
struct check_set;
struct circle;

enum flow {
    FLOW_NEXT,   /* done; the lanes go on behind this instruction */
    FLOW_BRANCH, /* done; all the lanes go on at op->target */
    FLOW_JUMP,   /* done; exec_ has set w->pc[] of its lanes, or ended them */
    FLOW_YIELD,  /* as FLOW_NEXT, but a poll failed: let others run first */
    FLOW_PARK,   /* not done; the same lanes try again once something has changed */
    FLOW_STOP,   /* an error was reported; the launch ends */
};

/* `lanes` is never 0 and holds only live lanes whose guard is true.  For opcodes with
 * .aligned the machine sees to it that they are all live lanes of the warp (check 26).
 * Lanes that are not in `lanes` must not change. */
typedef enum flow exec_fn(struct warp *w, const struct op *op, uint32_t lanes);

/* How an address (ADDR and VAR operands) starts; imm is added. */
enum opnd_base {
    BASE_NONE,   /* imm is the whole address; variables of global and const too */
    BASE_REG,    /* the register at `slot`, 32 or 64 bits wide */
    BASE_SHARED, /* own shared window: rank << SMEM_RANK_SHIFT */
    BASE_PARAM,  /* the launch's parameter block */
    BASE_LOCAL,  /* the lane's own depot; from 0 */
    BASE_CALL,   /* arguments and results of a call: from 0 in the lane's call area */
};

/* A decoded operand.  Registers, special registers and constants look alike to exec_
 * functions: 32 lanes in a row, 4 bytes each (8 for 64-bit types, 16 for .b128);
 * predicates are one 32-bit lane mask.  An immediate takes the width of the register
 * that stands in its place.  A sink is scrap memory, wide enough for anything, so that
 * it can be written like a register. */
struct opnd {
    uint8_t kind;  /* enum ptx_operand_kind; IMM and SREG have become REG */
    uint8_t bits;  /* of the register as declared: 1 8 16 32 64 128.  8- and
                      16-bit registers sit zero-extended in 4-byte lanes */
    uint8_t base;  /* enum opnd_base, of ADDR, VAR and TENSOR's items[0] */
    bool negated;  /* !p */
    bool is_const; /* slot counts in the kernel's constants, not the registers */
    bool is_sink;
    uint32_t slot; /* bytes from the start of the register file */
    int64_t imm;   /* byte offset of an address; an immediate's value as well */
    const struct ptx_var *var; /* the variable in an address, for reports */
    struct opnd *items;        /* VECTOR, TENSOR, PAIR */
    int item_count;
};

/* Registers that some wgmma works on, by their numbers in the kernel: those that an
 * instruction reads and writes; of a wgmma, A and the accumulators. */
struct fragments {
    bool is_wgmma;
    uint16_t read_count, write_count;
    uint16_t *reads, *writes;
};

struct op {
    exec_fn *exec;               /* set by decode_ */
    const struct ptx_insn *insn; /* line, modifiers, opcode text */
    struct opnd guard;           /* slot of the predicate; kind SINK: none */
    struct opnd *opnds;          /* in the order of the text */
    int opnd_count;
    uint8_t type;       /* enum ptx_type: last type of the opcode */
    uint8_t first_type; /* first type: what cvt, set and the like make */
    bool aligned;       /* .aligned: needs all live lanes at once */
    bool gathers;       /* .sync with a member mask: lanes wait for each other */
    bool visible;    /* others may see it: memory, synchronisation, asynchronous work */
    bool may_poll;   /* clusters may wait for one another by it */
    uint32_t aux[6]; /* free for the decoder of this instruction family:
                        modifiers boiled down so that exec_ need not search */
    void *data;      /* the same, in the kernel's arena */
    const struct watch *watch; /* of registers: watch.h; NULL: nothing to look after */
    const struct fragments *fragments; /* registers of wgmma that it touches; or NULL */
    uint32_t target;                   /* of a branch */
    uint32_t next;                     /* pc of the instruction behind */
};

/* A variable of module or function scope in .global or .const: who loads the module
 * has placed and initialised it in host memory. */
struct placed_var {
    const struct ptx_var *var;
    uint64_t address;
};

struct kernel { /* one .entry, decoded */
    const struct ptx_module *module;
    const struct ptx_func *func;
    struct op *ops;
    uint32_t op_count;
    uint32_t start_pc;
    uint32_t reg_bytes;    /* register file of one warp */
    const uint8_t *consts; /* constant slots, 32 lanes each */
    struct sreg_slot {
        uint32_t slot;
        uint16_t sreg; /* enum ptx_sreg */
        bool is_wide;  /* 8 bytes a lane */
    } * sregs;         /* written when a warp starts */
    int sreg_count;
    uint32_t static_smem_bytes; /* from SMEM_RESERVED_BYTES on */
    uint32_t local_bytes;       /* per lane */
    uint32_t call_bytes;        /* per lane, for arguments and results of calls */
    uint32_t dyn_smem_align;    /* declared by .extern .shared, 0: none */
    bool order_matters;         /* results may depend on the order of clusters: one
                                   host thread runs them all */
    bool takes_over;            /* it has clusterlaunchcontrol.try_cancel */
    bool edits_maps;            /* it changes tensor maps */
    const char **watched;       /* names of the registers that watches number */
    uint32_t watched_count;
    const char **fragments; /* the same of struct fragments */
    uint32_t fragment_count;
};

/* Decodes `f`, an .entry of `m`, into `a`.  Forms that the emulator does not have fail
 * here, with line, form and reason in `d`; NULL then. */
struct kernel *kernel_decode(struct arena *a, const struct ptx_module *m,
                             const struct ptx_func *f, const struct placed_var *vars,
                             int var_count, struct diags *d);
/* Offset in the shared window where .extern .shared begins. */
uint32_t kernel_dyn_smem_offset(const struct kernel *k);

enum wait_kind {
    WAIT_EVENT,   /* anything that changes in the cluster */
    WAIT_MBAR,    /* a phase of `mbar` */
    WAIT_BARRIER, /* named barrier `number` */
    WAIT_CLUSTER, /* barrier.cluster */
    WAIT_LANES,   /* the other lanes of a member mask */
    WAIT_ALIGNED, /* the other lanes of the warp, at an .aligned instruction */
    WAIT_TIME,    /* virtual time, nanosleep */
};

/* Why a group of lanes is parked: for waking it and for the deadlock report. */
struct wait {
    uint32_t lanes;
    enum wait_kind kind;
    const struct mbar *mbar;
    uint64_t phase;   /* MBAR: leave when mbar->phase is another one */
    uint64_t until;   /* TIME: cluster->clock */
    uint32_t number;  /* BARRIER; TIME: pc of the nanosleep */
    const char *what; /* EVENT: for the report; static text */
};

#define WARP_LOOPS 8

struct warp {
    struct cta *cta;
    int index;      /* in the CTA; lane quarter of tensor memory is index % 4 */
    uint8_t *regs;  /* kernel->reg_bytes, 64-byte aligned */
    uint8_t *local; /* kernel->local_bytes of lane 0, then of lane 1 ... */
    uint8_t *call;  /* kernel->call_bytes likewise */
    uint32_t pc[WARP_LANES];
    uint32_t live;    /* lanes that have not exited */
    uint32_t parked;  /* lanes in some waits[] */
    uint32_t yielded; /* lanes that let the warp's others run first */
    uint32_t cur_pc;  /* while one instruction runs: for reports */
    uint32_t cur_lanes;
    struct wait waits[WARP_LANES]; /* of a parked group, at its lowest lane */
    uint64_t steps;                /* warp instructions executed */
    uint32_t visible, asked;       /* choice.h: of them visible; questions since then */
    uint32_t issued;               /* asynchronous operations */
    bool is_starved;               /* it has passed the label of starve:LABEL */
    bool has_left; /* its last turn ended in the middle, by choice; the next is part of
                      it */
    uint32_t event_lanes; /* parked lanes that any event wakes */
    uint32_t time_lanes;  /* ... that sleep */
    uint32_t lane_waits;  /* ... that wait for other lanes of this warp */
    bool read_clock;      /* in its last turn */
    uint32_t expired; /* lanes whose try_wait is to return false, as after a time-out */
    bool has_expired; /* some did in its last turn */
    const struct mbar *false_mbar; /* which the last try_wait said false of, */
    uint64_t false_phase;          /* and in which phase: lazy strategy */
    bool polled;                   /* its last turn ended with a failed poll */
    bool spinning;                 /* proven to repeat itself until something changes */
    const struct mbar *polled_mbar; /* of the newest wait that returned false */
    uint64_t polled_phase;
    uint32_t polled_lanes;      /* ... in these lanes */
    uint32_t loops[WARP_LOOPS]; /* role.h: the lowest branch targets behind us */
    uint32_t last_loop;
    int loop_count;
    uint64_t seen_events; /* cluster->events at the end of its last turn */
    uint64_t seen_global_events;
    struct spin *spin; /* proof that it polls in vain: owned by check_spin.c */
    const struct allocation *hit; /* where its last global access was */
    uint32_t carry;               /* CC.CF of add.cc and its relatives */
    uint32_t ld_pending;          /* tcgen05.ld issued and not waited for */
    uint32_t syncs;               /* barriers that it has passed */
    bool dependency_seen;         /* it may use what the grid before has written */
    struct hb_warp *hb;           /* what it knows: hb.h; NULL: checks are off */
};

#define MBAR_SIGNALS 16

/* 2.7 of the semantics: kept beside shared memory, found by offset.  Never moves. */
struct mbar {
    struct cta *cta;
    uint32_t offset; /* in the shared window of its CTA */
    bool valid;
    uint32_t expected, pending; /* arrivals */
    int64_t tx;                 /* bytes still to come; may be negative */
    uint64_t phase;             /* completed phases; parity is the low bit */
    bool observed;              /* a wait has returned true for the newest one */
    int init_line;
    uint32_t init_pc;
    int64_t tx_expected, tx_completed; /* sums in this phase, for reports */
    struct mbar_signal {               /* who arrived, expected or completed bytes */
        struct warp *warp;             /* that executed or issued the instruction */
        uint32_t pc;
        uint64_t phase;             /* the newest in which it did */
        uint32_t arrivals;          /* in that phase */
        int64_t expected, received; /* bytes, likewise */
    } signals[MBAR_SIGNALS];
    int signal_count; /* of distinct ones; more are forgotten */
    struct hb_mbar *hb;
    uint64_t order, waiters; /* coverage.c: of this phase so far */
    uint64_t arrived, done;  /* timeline.c: newest arrival, end of the newest phase */
    uint32_t last_pc;        /* ... and what it was */
    uint8_t last_kind, done_kind;
    struct mbar *next; /* of the same hash */
    struct mbar *next_of_cta;
};

#define MBAR_HASH 64

struct cta {
    struct cluster *cluster;
    uint32_t rank;  /* in the cluster */
    uint32_t id[3]; /* %ctaid */
    struct warp *warps;
    int warp_count;
    uint8_t *smem;       /* whole window; [0, SMEM_RESERVED_BYTES) is the system's */
    uint32_t smem_bytes; /* end of what the CTA may touch, from the window's start */
    uint32_t dyn_smem_offset; /* where .extern .shared begins */
    uint32_t *tmem;           /* [column * TMEM_LANES + lane], NULL until first alloc */
    struct tmem_alloc {
        uint32_t col, cols;
    } tmem_allocs[TMEM_COLS / 32];
    int tmem_alloc_count;
    bool tmem_relinquished;
    int live_warps; /* 0: the CTA has exited */
    struct mbar *mbar_hash[MBAR_HASH];
    struct mbar *mbars; /* all of them, by next_of_cta */
    struct mbar *mbar_spare;
    uint32_t watch_from, watch_to; /* unread answers of launch control lie here */
    uint32_t mbar_from, mbar_to;   /* valid barriers lie between these offsets */
    void *sync;                    /* named barriers: owned by exec_bar.c */
    void *copies;                  /* cp.async groups: owned by exec_cpasync.c */
    void *bulk;                    /* bulk groups of all lanes: owned by exec_tma.c */
    void *pipe;                    /* tcgen05 pipe: owned by exec_tcgen05.c */
    void *answers;                 /* of launch control: owned by exec_clc.c */
    void *registers;               /* of setmaxnreg: owned by exec_regs.c */
    struct view *views;            /* of tensor maps: owned by exec_tmap.c */
    void *wgmma;                   /* groups of each warp: owned by exec_wgmma.c */
};

struct cluster {
    struct grid *grid;
    uint64_t number; /* in the grid, x fastest */
    uint64_t next_number,
        number_step;        /* those that it may take over: launch_control.h */
    uint32_t requests;      /* for such ones, so far */
    bool dependency_waited; /* somebody has executed griddepcontrol.wait */
    uint32_t id[3], shape[3];
    struct cta *ctas;
    int cta_count;
    struct async_op *async_first, **async_tail; /* not yet complete, oldest first */
    uint32_t async_pending;                     /* how many these are */
    struct async_op *async_free;
    uint64_t async_count;      /* operations issued so far: the next id */
    uint64_t rng;              /* this cluster's own stream of the launch's seed */
    struct choices *choices;   /* owned by choice.c; NULL: nothing is chosen */
    uint64_t delay_count;      /* delay: operations of its kind so far */
    struct timeline *timeline; /* owned by timeline.c; NULL: not traced */
    struct coverage *coverage; /* owned by coverage.c; NULL: not wanted */
    uint64_t events;           /* counts what a waiting warp may see: stores, arrivals,
                                  completions, releases, exits */
    uint64_t meetings;         /* of them at barriers that hold no data: bar, cluster */
    uint64_t steps;            /* warp instructions so far */
    uint64_t polls;            /* ... of them such as may_poll says */
    uint64_t held_since;       /* steps when somebody held back last had a turn */
    uint32_t haste;            /* how often that came about by patience alone */
    struct circle *circle;     /* owned by check_spin.c */
    uint64_t quiet_steps;      /* ... since the last event, which had this number: */
    uint64_t quiet_since;
    uint64_t clock;     /* virtual time in ns */
    uint64_t slice_end; /* of that clock: where others may have a turn */
    bool wrote_global;  /* since grid->global_events was counted up for it */
    void *sync;         /* barrier.cluster: owned by exec_bar.c */
    int live_ctas;
    struct hb *hb;            /* happens-before: hb.h; NULL: checks are off */
    struct async_op *running; /* being completed: what mbar_complete_tx belongs to */
    struct cluster *next;     /* in a list of the machine */
};

/* What one launch is; the launcher fills in the first part, zeroes the rest and keeps
 * all of it until grid_run() has returned. */
struct grid {
    const struct kernel *kernel;
    uint32_t dim[3], block[3]; /* dim in CTAs */
    uint32_t cluster[3];       /* 1 1 1 without clusters; divides dim */
    uint32_t dyn_smem_bytes;
    const uint8_t *params; /* private copy, 128-byte aligned, readable by kernels */
    uint32_t param_bytes;
    enum strategy strategy;
    struct rule rule;   /* what stands behind the strategy's name */
    uint32_t starve_pc; /* whoever passes it is starved; UINT32_MAX: nobody */
    uint64_t seed;
    const struct deviations *plan; /* replay; or NULL */
    struct deviations *record;     /* the choices made are added; NULL: not wanted */
    struct trace *trace;           /* timeline.h; NULL: not wanted */
    struct coverage *coverage;     /* what came to pass is added; NULL: not wanted */
    int threads;                   /* host threads, 0: as many as there are CPUs */
    bool no_checks; /* FP4EMU_CHECK=off: hazard checks that can be left out are */
    const struct check_set *checks; /* which are on; NULL: the default (checks.h) */
    bool mma_as_hardware;           /* enum mma_mode of block-scaled MMAs */
    bool fp8_by_f16;                /* mma_any.h, for mma.sync */
    bool perturb;                   /* approx.h */
    int sm_count;                   /* for %nsmid, 0: 148 */
    uint32_t registers;      /* of a thread at launch; 0: the kernel states no bound */
    uint64_t step_limit;     /* warp instructions of one cluster; 0: none */
    uint64_t print_limit;    /* bytes that printf may write; 0: none */
    uint64_t most_resident;  /* clusters at once, as a device has room for; 0: any */
    uint64_t first_clusters; /* launched at first, the others as these exit; 0: all */
    uint64_t id;             /* for %gridid */
    struct footprint *footprint; /* what it touches: across.h; NULL: nobody asks */
    uint8_t stamp, depends_on; /* of this grid, of the one before: depend.h; 0: none */
    uint64_t workspace;    /* of a cooperative launch, where threads of all blocks meet:
                                 the    address in %envreg1 and %envreg2; 0: none */
    struct report *report; /* the first error of the launch; see report.h */

    atomic_ullong ctas_done;     /* for a progress bar, readable from other threads */
    atomic_ullong steps;         /* warp instructions executed, added as clusters end */
    atomic_ullong visible;       /* of them visible, in the cluster that had most */
    atomic_ullong printed;       /* bytes by printf */
    atomic_ullong global_events; /* counts changes of global memory */
    atomic_ullong failed_cluster; /* 1 + lowest number of a cluster that has failed */
    bool may_repeat;    /* several host threads, and what they write can be undone */
    atomic_bool repeat; /* clusters are in conflict: once more, on one host thread */
    void *run;          /* of the running machine */
    struct hb_grid *hb; /* hb.h */
    struct edit *edits; /* of tensor maps: owned by exec_tmap.c */
};

/* Runs the grid to its end.  False: g->report holds the error.  The lock that makes
 * global read-modify-writes of several host threads indivisible is the grid's. */
bool grid_run(struct grid *g);
/* A read-modify-write of global memory between these two is indivisible among the host
 * threads of a launch: atom, red, reducing copies. */
void global_lock(struct grid *g);
void global_unlock(struct grid *g);

/* ---- operands */

static inline void *opnd_lanes(const struct warp *w, const struct opnd *o);
/* 64-bit sum of an ADDR or VAR operand for one lane, in the terms of the operand's
 * state space: shared addresses with the rank, local ones from 0. */
uint64_t opnd_address(const struct warp *w, const struct opnd *o, int lane);
/* Zero-extended value of a register operand of at most 32 or 64 bits; predicates 0/1.
 */
uint32_t opnd_u32(const struct warp *w, const struct opnd *o, int lane);
uint64_t opnd_u64(const struct warp *w, const struct opnd *o, int lane);
/* Lanes in which a predicate operand (negated or not) is true. */
static inline uint32_t opnd_mask(const struct warp *w, const struct opnd *o);

/* ---- parking */

/* Return this from an exec_ function that cannot go on: `return park(w, lanes, "what it
 * waits for")`.  The instruction is executed again when cluster_event() was called. */
enum flow park(struct warp *w, uint32_t lanes, const char *what);
/* Parks until `m` has left `phase`. */
enum flow park_mbar(struct warp *w, uint32_t lanes, const struct mbar *m,
                    uint64_t phase);
/* Something happened that a parked or polling warp of the cluster may wait for. */
static inline void cluster_event(struct cluster *c);
/* The same, and what happened is that threads meet: no data has changed. */
static inline void cluster_meeting(struct cluster *c);

/* ---- memory (exec_mem.c, memory.c) */

/* Host pointer to `bytes` of shared memory at a 32-bit shared::cluster or
 * shared::cta address of this warp; *owner and *offset tell where.  NULL after a
 * report (outside the window, foreign rank where only ::cta is allowed, exited CTA). */
uint8_t *shared_at(struct warp *w, uint32_t address, uint32_t bytes, bool cluster_ok,
                   struct cta **owner, uint32_t *offset);
/* Host pointer to global memory inside one live allocation; NULL after a report.
 * `what` names the access for the report: "ld.global", "tensor copy of map tma_a". */
uint8_t *global_at(struct warp *w, uint64_t address, uint64_t bytes, bool write,
                   const char *what);
/* Resolves a generic or global address of bytes that may lie in shared memory, for bulk
 * operations: as global_at or shared_at. */
uint8_t *generic_at(struct warp *w, uint64_t address, uint32_t bytes, bool write,
                    int lane, const char *what);

/* ---- mbarriers (exec_mbar.c); offsets are in the CTA's shared window */

/* NULL: none valid there. */
struct mbar *mbar_find(const struct cta *c, uint32_t offset);
/* Is there a valid barrier among these bytes? */
static inline bool mbar_in(const struct cta *c, uint32_t from, uint32_t to);
bool mbar_in_range(const struct cta *c, uint32_t from, uint32_t to);
/* These report and return false on errors.  `w` is whom to blame: the executing warp,
 * or the issuer of the asynchronous operation (async.c sets its cur_pc meanwhile). */
bool mbar_arrive(struct warp *w, struct cta *c, uint32_t offset, uint32_t count);
bool mbar_expect_tx(struct warp *w, struct cta *c, uint32_t offset, uint32_t bytes);
bool mbar_complete_tx(struct warp *w, struct cta *c, uint32_t offset, uint32_t bytes);

/* ---- asynchronous operations (async.c) */

enum async_kind {
    ASYNC_COPY_IN,  /* bulk or tensor copy into shared memory */
    ASYNC_COPY_OUT, /* bulk or tensor copy out of shared memory */
    ASYNC_MMA,
    ASYNC_TC_CP,
    ASYNC_COMMIT,
    ASYNC_WGMMA, /* what it reads; the arithmetic is done at issue */
    ASYNC_CP,    /* cp.async of one warp; arg.p[0] is allocated and goes with it */
};

/* A byte range of one CTA's shared memory that an operation reads or writes. */
struct smem_range {
    struct cta *cta;
    uint32_t from, to; /* offsets, `to` excluded */
    bool write;
};

#define ASYNC_MAX_RANGES 20

struct async_op {
    enum async_kind kind;
    struct warp *issuer;
    uint32_t pc; /* of the instruction */
    int lane;
    uint64_t id;                                /* counts up in the cluster */
    struct smem_range ranges[ASYNC_MAX_RANGES]; /* what it touches */
    int range_count;
    bool in_order;          /* member of the tcgen05 FIFO of its CTA */
    bool reduces;           /* adds to what is there: any order will do */
    bool is_held;           /* by delay */
    uint8_t slot_bytes;     /* of each 16 that it writes, the first; 0: all */
    uint32_t ordinal;       /* its issuer's operations before it */
    uint32_t cycles;        /* timeline.c: how long an MMA takes */
    uint64_t issued;        /* ... by the issuer's clock */
    int64_t priority;       /* pct */
    uint32_t lanes, number; /* who may know of it, and by which number: hb.h */
    struct hb_event *event;
    bool (*run)(struct async_op *); /* does the work; false after a report */
    union {
        uint64_t u[24]; /* the family's own arguments */
        void *p[24];
    } arg;
    struct async_op *next;
};

/* A zeroed operation with issuer, pc and lane filled in; goes back by itself. */
struct async_op *async_new(struct warp *w, enum async_kind kind, int lane);
/* Gives an operation back that will not be issued. */
void async_drop(struct async_op *o);
/* Adds a range; neighbours and overlaps of the same direction are merged when the
 * table is full, so that it may be called any number of times. */
void async_touch(struct async_op *o, struct cta *c, uint32_t from, uint32_t to,
                 bool write);
/* Judges its ranges (hb_async.c), then runs it at once (eager) or queues it (lazy).
 * False after a report. */
bool async_issue(struct async_op *o);
/* Completes the oldest pending operation that may complete.  False: none was pending,
 * or it failed (see report). */
bool async_step(struct cluster *c);
/* `o`, or the operation that must complete before it and can complete now. */
struct async_op *async_front_of(struct cluster *c, struct async_op *o);
/* Completes it; nothing must have to come before.  False after a report. */
bool async_complete(struct cluster *c, struct async_op *o);
/* Completes all of them that satisfy `wanted`, and whatever must come before: older
 * in_order operations of the same CTA, older operations on the same bytes. */
bool async_drain(struct cluster *c, bool (*wanted)(const struct async_op *, void *),
                 void *arg);
/* An access of shared memory: answers of launch control may lie there. */
void coverage_touch(const struct cta *c, uint32_t pc, uint32_t from, uint32_t to,
                    bool write);

static inline void async_check_access(struct cta *c, uint32_t from, uint32_t to,
                                      bool write);
void async_read_answers(struct cta *c, uint32_t from, uint32_t to);

/* ---- hooks of the two families that keep state of their own in a CTA */

/* The CTA's last thread has exited: checks 16, 22, 23; false after a report. */
bool tma_cta_end(struct warp *w, struct cta *c);
bool tcgen05_cta_end(struct warp *w, struct cta *c);
/* Frees c->bulk, c->pipe, c->tmem when the cluster goes. */
void tma_cta_free(struct cta *c);
void tcgen05_cta_free(struct cta *c);

/* ---- decoding (decode.c) */

/* One per opcode that ptx_ops.def calls emulated: picks o->exec, boils modifiers down
 * to o->aux, and refuses what the family does not have.  Called once an instruction;
 * o->insn, guard, opnds, type, first_type, next, target, aligned and gathers are filled
 * in.  False after decode_refuse(). */
typedef bool decode_fn(struct decoder *d, struct op *o);

/* Records why this form cannot be run: "fmt" ends the sentence "... is not emulated: ".
 * Always false, so that `return decode_refuse(...)` ends a decode_ function. */
bool decode_refuse(struct decoder *d, const struct op *o, const char *fmt, ...)
    PRINTF_LIKE(3, 4);
/* Refuses unless the operand is a register (or constant, or sink) of `bits`. */
bool decode_want_reg(struct decoder *d, const struct op *o, int index, int bits);
/* Refuses unless there are from `least` to `most` operands. */
bool decode_want_count(struct decoder *d, const struct op *o, int least, int most);
/* Refuses unless the operand is an address in brackets. */
bool decode_want_address(struct decoder *d, const struct op *o, int index);
/* Value of an immediate operand; false without a refusal when it is none. */
bool opnd_is_imm(const struct opnd *o, int64_t *value);
struct arena *decode_arena(struct decoder *d); /* the kernel's */
/* Results may depend on the order in which clusters run (kernel->order_matters). */
void decode_order_matters(struct decoder *d);

#define PTX_OP(id, spelling, isa, needs, mods, operands, emulated)                     \
    PTX_EMULATED_##emulated(id)
#define PTX_EMULATED_EMU(id) decode_fn decode_##id;
#define PTX_EMULATED_NO_EMU(id)
#include "core/ptx_ops.def"
#undef PTX_OP
#undef PTX_EMULATED_EMU
#undef PTX_EMULATED_NO_EMU

/* ---- lane masks */

static inline int bits_count(uint32_t x)
{
    x -= x >> 1 & 0x55555555u;
    x = (x & 0x33333333u) + (x >> 2 & 0x33333333u);
    return (int)(((x + (x >> 4)) & 0x0f0f0f0fu) * 0x01010101u >> 24);
}

/* Index of the lowest set bit; `x` is not 0. */
static inline int bits_lowest(uint32_t x)
{
    return bits_count((x & (0u - x)) - 1);
}

/* The usual walk over some lanes:
 *     for (uint32_t rest = lanes; rest; rest &= rest - 1) {
 *         int lane = bits_lowest(rest); */

/* ---- inline parts */

static inline void *opnd_lanes(const struct warp *w, const struct opnd *o)
{
    if (o->is_const) {
        /* Constants are never written; one pointer type serves both. */
        union {
            const uint8_t *in;
            void *out;
        } consts = {.in = w->cta->cluster->grid->kernel->consts + o->slot};
        return consts.out;
    }
    return w->regs + o->slot;
}

static inline uint32_t opnd_mask(const struct warp *w, const struct opnd *o)
{
    uint32_t mask;
    memcpy(&mask, opnd_lanes(w, o), sizeof mask);
    return o->negated ? ~mask : mask;
}

static inline void cluster_event(struct cluster *c)
{
    c->events++;
}

static inline void cluster_meeting(struct cluster *c)
{
    c->events++;
    c->meetings++;
}

static inline void async_check_access(struct cta *c, uint32_t from, uint32_t to,
                                      bool write)
{
    if (!write && from < c->watch_to && to > c->watch_from)
        async_read_answers(c, from, to);
}

static inline bool mbar_in(const struct cta *c, uint32_t from, uint32_t to)
{
    return from < c->mbar_to && to > c->mbar_from && mbar_in_range(c, from, to);
}

#endif
