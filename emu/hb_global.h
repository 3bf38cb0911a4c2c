/* hb_global.h - what clusters of a grid know of each other, through global memory. */
#ifndef FP4EMU_HB_GLOBAL_H
#define FP4EMU_HB_GLOBAL_H

#include "emu/hb.h"

/* What somebody knows of threads of other clusters, in the components of these. */
struct hb_others {
    struct hb_other {
        uint64_t cluster;
        struct hb_know know; /* its own `others` is not used */
    } * at;
    uint32_t count, cap;
};

const struct hb_know *hb_others_find(const struct hb_others *o, uint64_t cluster);

struct hb_flags;
void hb_flags_delete(struct hb_flags *f);
/* A strong access of a lane to an address of shared or global memory. */
bool hb_flag(struct warp *w, struct hb_flags **flags, uint64_t address, int lane,
             bool reads, bool writes);

#endif
