/* tma.h - what the files of the bulk copies share, and what tcgen05 asks them. */
#ifndef FP4EMU_TMA_H
#define FP4EMU_TMA_H

#include "emu/machine.h"
#include "emu/tmap.h"

/* Who wrote a piece of shared memory last, among the bulk copies, and how it lies:
 * check 29 compares matrix descriptors with it. */
struct fill {
    uint32_t from, to; /* bytes of the shared window, `to` excluded */
    bool is_tensor;    /* through a tensor map; else plain bytes */
    uint8_t swizzle, atom;
    uint32_t pitch_bytes; /* from row to row */
    uint64_t map_address;
    const struct warp *issuer;
    uint32_t pc;
};

/* Sorted, without overlaps. */
struct fills {
    struct fill *at;
    int count, cap;
};

/* Per CTA, in cta->bulk. */
struct tma_state {
    uint32_t *closed; /* groups committed so far, of each lane of each warp */
    struct fills fills;
};

struct tma_state *tma_state(struct cta *c);
void fills_add(struct fills *f, const struct fill *new_fill);
/* The one that holds this byte; NULL: no copy has written it. */
const struct fill *fills_find(const struct fills *f, uint32_t offset);
/* For reports: "line 97 (cp.async.bulk.tensor...) ..., map tma_a". */
const char *fill_describe(const struct fill *f, char *text, size_t bytes);
/* "tma_a" for a map that is a parameter, else its address. */
const char *tma_map_name(const struct grid *g, uint64_t address, char *text,
                         size_t bytes);

/* One operation on its way, in the async_op's arguments.  In shared memory there is one
 * CTA's piece, in global memory the tensor or plain bytes. */
struct tma_copy {
    struct tmap map;           /* tensors */
    int32_t at[TMAP_MAX_RANK]; /* first coordinates, innermost first */
    uint32_t bytes;            /* plain copies */
    uint64_t address;          /* global address of plain bytes, or of the map */
    struct cta *cta;           /* of the shared memory side */
    uint32_t offset;
    uint32_t mbar_offset;
    struct cta *mbar_cta; /* NULL: none */
    uint32_t lanes;       /* that wait for it, stores: a mask of the issuer's lanes */
    uint32_t group;       /* of these lanes: how many groups were closed before it */
    uint32_t from_offset; /* shared to shared: the source */
    struct cta *from_cta; /* the same; NULL: global memory */
};
_Static_assert(sizeof(struct tma_copy) <= sizeof((struct async_op *)0)->arg,
               "tma_copy must fit an async_op");

/* What decode_tma.c boils an instruction down to: op->aux[0] holds flags, [1] the
 * number of dimensions (0: plain bytes), [2] an enum tma_reduction, [3] the enum
 * tmap_type that it works on, [4] the number of the operand that is the multicast mask.
 */
enum {
    TMA_REDUCES = 1,
    TMA_MULTICAST = 2,
    TMA_PAIR = 4,    /* .cta_group::2 */
    TMA_OWN_CTA = 8, /* destination in .shared::cta */
};

exec_fn tma_tensor_load, tma_plain_load, tma_plain_to_cluster, tma_store,
    tma_commit_group, tma_wait_group, tma_tensor_prefetch, tma_plain_prefetch;

/* exec_tma.c: does the operation copy through the map at this address? */
bool tma_uses_map(const struct async_op *o, uint64_t address);

/* exec_tmap.c: check 34, of a copy through the map at a global address. */
bool tmap_check_use(struct warp *w, uint64_t address, const uint8_t *map);

/* Of the 16 bytes of a slot in shared memory, those that hold elements. */
uint32_t tma_slot_bytes(const struct tmap *t);
/* tma_copy.c: move one box.  False after a report. */
bool tma_load_box(struct warp *w, const struct tma_copy *c);
bool tma_store_box(struct warp *w, const struct tma_copy *c);

/* Calls for the bytes of each row of the box that lies in the tensor.  False after a
 * report, or when `fn` has said so. */
typedef bool tma_row_fn(struct warp *w, uint64_t address, uint64_t bytes, void *arg);
bool tma_each_row(struct warp *w, const struct tma_copy *c, bool write, bool reduces,
                  tma_row_fn *fn, void *arg);

enum tma_reduction {
    TMA_ADD,
    TMA_MIN,
    TMA_MAX,
    TMA_INC,
    TMA_DEC,
    TMA_AND,
    TMA_OR,
    TMA_XOR,
};
bool tma_reduce_box(struct warp *w, const struct tma_copy *c, enum tma_reduction op);

/* tma_reduce.c: to[i] = to[i] op from[i].  tma_can_reduce: is there such a reduction?
 */
bool tma_can_reduce(enum tma_reduction op, enum tmap_type type);
void tma_reduce(uint8_t *to, const uint8_t *from, uint32_t bytes, enum tma_reduction op,
                enum tmap_type type);

#endif
