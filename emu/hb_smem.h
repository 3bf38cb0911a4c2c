/* hb_smem.h - who touched the bytes of one CTA's shared memory last.
 *
 * Generic accesses are kept for each 4-byte word (each byte where narrower ones come),
 * in blocks of 1 KiB that are there only where such accesses happen: a cell for writes
 * and one for reads.  Each holds the last one, and earlier ones that say more: those
 * that the last one did not know of, and the last weak one before a strong one.
 * Asynchronous operations are kept as ranges: segments that cover the window without
 * gaps, each with its last writer and the readers since. */
#ifndef FP4EMU_HB_SMEM_H
#define FP4EMU_HB_SMEM_H

#include "emu/hb_clock.h"

struct cta;
struct hb_event;

#define HB_BLOCK_BYTES 1024
#define HB_BLOCK_WORDS (HB_BLOCK_BYTES / 4)

/* A cell: 0, nobody; or time 28, component 13, lane 5, strong 1, pc 17 bits.  Two
 * components stand for an index into a pool instead. */
typedef uint64_t hb_cell;
#define HB_CELL_LIST 8191u  /* several accesses */
#define HB_CELL_SPLIT 8190u /* one cell for each of the four bytes */
#define HB_CELL_TIME_MAX ((1u << 28) - 1)
#define HB_CELL_PC_MAX ((1u << 17) - 1)
#define HB_CELL_OWNER ((uint64_t)0x3ffff << 18) /* component and lane */
#define HB_CELL_STRONG ((uint64_t)1 << 17)

static inline hb_cell hb_cell_make(uint32_t time, uint32_t component, uint32_t lane,
                                   bool strong, uint32_t pc)
{
    if (time > HB_CELL_TIME_MAX || component >= HB_CELL_SPLIT)
        return 0; /* more than can be kept: forgotten */
    return (uint64_t)time << 36 | (uint64_t)component << 23 | (uint64_t)lane << 18 |
           (uint64_t)strong << 17 | (pc < HB_CELL_PC_MAX ? pc : HB_CELL_PC_MAX);
}

static inline uint32_t hb_cell_time(hb_cell c)
{
    return (uint32_t)(c >> 36);
}

static inline uint32_t hb_cell_component(hb_cell c)
{
    return (uint32_t)(c >> 23) & 8191;
}

static inline uint32_t hb_cell_lane(hb_cell c)
{
    return (uint32_t)(c >> 18) & 31;
}

static inline uint32_t hb_cell_pc(hb_cell c)
{
    return (uint32_t)c & HB_CELL_PC_MAX;
}

struct hb_block {
    hb_cell write[HB_BLOCK_WORDS], read[HB_BLOCK_WORDS];
    struct hb_block *next; /* spare ones */
};

/* One of several accesses of a cell: lanes of a warp, all up to one time. */
struct hb_reader {
    uint32_t component, lanes, time, pc;
    bool strong;
    uint32_t next; /* index, 0: none */
};

struct hb_split {
    hb_cell byte[4];
    uint32_t next; /* spare ones */
};

struct hb_readers { /* the pools of one CTA, or of global memory */
    struct hb_reader *reader;
    uint32_t reader_count, reader_cap, reader_spare;
    struct hb_split *split;
    uint32_t split_count, split_cap, split_spare;
};

#define HB_SEG_READS 4

struct hb_seg {
    uint32_t from, to;
    struct hb_event *write;
    struct hb_event *reads[HB_SEG_READS];
    int read_count;
    struct hb_seg *next;
};

struct hb_smem {
    struct cta *cta;
    struct hb_block **blocks;
    uint32_t block_count;
    struct hb_seg *first, **page; /* page[i]: the segment with byte i * 1024 */
    struct hb_seg *spare_segs;
    struct hb_block *spare_blocks;
    struct hb_readers pools;
    struct hb_know exit; /* of the threads that have exited */
    bool left_barrier;   /* some of them between arrive and wait of the cluster's */
    struct hb_visitor *visitors; /* newest accesses by warps of other CTAs */
    int visitor_count, visitor_cap;
};

void hb_smem_new(struct hb_smem *s, struct cta *t);
void hb_smem_reset(struct hb_smem *s);
void hb_smem_free(struct hb_smem *s);

/* The segment that holds this byte. */
struct hb_seg *hb_seg_at(struct hb_smem *s, uint32_t at);
/* Divides, so that a segment starts at `at`; returns it. */
struct hb_seg *hb_seg_split(struct hb_smem *s, uint32_t at);
/* One segment for all of from .. to, written by `e`. */
void hb_seg_write(struct hb_smem *s, uint32_t from, uint32_t to, struct hb_event *e);
/* Forgets generic accesses there. */
void hb_cells_clear(struct hb_smem *s, uint32_t from, uint32_t to);
void hb_readers_free(struct hb_readers *p);
void hb_readers_reset(struct hb_readers *p);
/* The cell is not needed any more. */
void hb_cell_drop(struct hb_readers *p, hb_cell c);

#endif
