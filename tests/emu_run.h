/* emu_run.h - runs PTX on the emulator's machine, below the driver API.
 *
 *     struct emu_run r = {.ptx = text, .threads = 128, .smem_bytes = 4096};
 *     uint64_t out = emu_alloc(&r, 4096);
 *     emu_param(&r, &out, sizeof out);
 *     CHECK(emu_launch(&r));
 *     CHECK_EQ(emu_u32(out)[0], 7);
 *     emu_done(&r);
 *
 * Tests say what they want of eager and lazy completion by .lazy. */
#ifndef FP4GEN_EMU_RUN_H
#define FP4GEN_EMU_RUN_H

#include "emu/machine.h"
#include "emu/report.h"

struct emu_run {
    const char *ptx;    /* a module, or with .body only the inside of an entry */
    const char *body;   /* wrapped into a module for sm_100a with shared array sm[] */
    const char *params; /* with .body: the parameter list */
    int threads;
    uint32_t grid[3], cluster[3]; /* zeros: ones */
    uint32_t smem_bytes;
    bool lazy;
    const char *strategy; /* as FP4EMU_STRATEGY; NULL: eager, or lazy by .lazy */
    uint64_t seed;
    uint32_t registers;            /* of a thread at launch; 0: no bound is stated */
    uint32_t first_clusters;       /* launched at first; 0: all */
    const char *checks;            /* as FP4EMU_CHECK; NULL: default */
    bool perturb;                  /* as FP4EMU_APPROX=perturb */
    const struct deviations *plan; /* of strategy replay, which names a file all the
                                      same; or NULL */
    struct deviations *record;     /* choices made are added; or NULL */
    /* -- filled in */
    struct arena *arena;
    struct diags *diags;
    struct grid machine;
    struct check_set check_set;
    _Alignas(128) uint8_t param_bytes[1024];
    uint32_t param_end;
    uint64_t buffers[16];
    int buffer_count;
};

/* Device memory, zeroed; goes with emu_done(). */
uint64_t emu_alloc(struct emu_run *r, size_t bytes);
uint8_t *emu_bytes(uint64_t address);
uint32_t *emu_u32(uint64_t address);
/* The next parameter, at its natural alignment (64 for 128 bytes: tensor maps). */
void emu_param(struct emu_run *r, const void *value, uint32_t bytes);
/* Parses, decodes and runs.  False: emu_report() says why, or emu_refusal(). */
bool emu_launch(struct emu_run *r);
const char *emu_report(const struct emu_run *r);
const char *emu_refusal(const struct emu_run *r);
void emu_done(struct emu_run *r);

/* The launch must have a report of this check, in this line of the text (0: any), with
 * these words in it: the error that ends it, or a warning. */
void emu_expect(const char *file, int line, struct emu_run *r, enum check check,
                int ptx_line, const char *words);
#define EMU_EXPECT(r, check, ptx_line, words)                                          \
    emu_expect(__FILE__, __LINE__, (r), (check), (ptx_line), (words))
/* ... or in none, not even a warning. */
void emu_fine(const char *file, int line, struct emu_run *r);
#define EMU_FINE(r) emu_fine(__FILE__, __LINE__, (r))

#endif
