/* config.h - a tile config written in Lua, checked against the schema.
 *
 * config_load() runs the file in the sandbox (gen/lua.h), takes the one table that it
 * gives to `gemm` or to `quantize`, lays the command line's overrides over it, and
 * checks every field against gen/schema.def or gen/schema_quantize.def.  What it
 * returns is complete: every field has a value. */
#ifndef FP4GEN_CONFIG_H
#define FP4GEN_CONFIG_H

#include "core/base.h"
#include "core/diag.h"
#include "core/target.h"

enum d_type {
    D_BF16,
    D_F32,
};

struct expr;

#define STAGES_AUTO 0

struct config_field_loc {
    const char *field; /* "tile.m" */
    struct loc loc;
};

struct config {
    const char *file;   /* for messages; "<command line>" when there is none */
    const char *source; /* text of the file, for carets; NULL: none */
    const char *name;   /* "nvfp4_gemm" */
    const struct target *target;
    const struct quantize_config *quantize; /* NULL: a GEMM, and what follows is set */
    int tile_m, tile_n, tile_k;             /* elements */
    int stages;                             /* STAGES_AUTO: as many as fit */
    enum d_type d_type;
    const char *epilogue;      /* "identity"; "custom": a function in the config */
    struct expr *expr;         /* of the epilogue; NULL: identity */
    const char *template_name; /* "gemm_tcgen05" */
    bool scale_vec;            /* spell .scale_vec::4X instead of .block16 */
    int group_m;               /* row blocks of tiles that share B columns in L2 */
    uint64_t hash;             /* of all of the above that change the kernel */
    struct config_field_loc *locs;
    int loc_count;
};

struct config_override { /* --set stages=3, --tile 128x256, --target ... */
    const char *field;   /* "stages", "tile.n"; "rounding?": where there is such one */
    const char *value;   /* as typed */
};

/* NULL when refused; `d` has all that was found.  `path` NULL: the defaults alone; a
 * word without dot and slash: the built-in config of that name. */
struct config *config_load(struct arena *a, const char *path,
                           const struct config_override *overrides, int override_count,
                           struct diags *d);
/* Where `field` was set, for messages; the constructor's line when it was not. */
struct loc config_loc(const struct config *c, const char *field);

/* One row of schema.def. */
struct config_field {
    const char *path;     /* "tile.m" */
    const char *fallback; /* as on the command line */
    const char *allowed;  /* "64, 128, 192 or 256" */
    const char *words;    /* the same for programs: "64 128 192 256", "auto 2..32" */
    const char *meaning;
    const char *constructor; /* gemm or quantize */
};

/* NULL past the last row. */
const struct config_field *config_field_at(struct arena *a, int i);
const char *d_type_name(enum d_type t); /* "bf16" */

#endif
