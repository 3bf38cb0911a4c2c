/* image.h - PTX and all that a launch needs; a struct, no functions.
 *
 * The manifest is a block of comment lines in the PTX, "// key: value", between
 * "// fp4gen-manifest 3" and "// end-manifest", and the same bytes without "// " in
 * the module constant fp4gen_manifest.  gen/manifest.c writes it, runtime/manifest.c
 * reads it from the text.  docs/manifest.md lists the keys. */
#ifndef FP4GEN_IMAGE_H
#define FP4GEN_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#define IMAGE_MANIFEST_VERSION 3
#define IMAGE_MAX_TENSORS 16
#define IMAGE_MAX_PARAMS 64
#define IMAGE_MAX_OUTPUTS 4
#define IMAGE_MAX_ARGS 16

/* A size in a tensor map that depends on the problem: factor * symbol. */
enum image_symbol {
    SYM_ONE,                                 /* the factor alone */
    SYM_M,                                   /* rows of A and of the outputs */
    SYM_N,                                   /* rows of B */
    SYM_K,                                   /* columns of A and B, FP4 elements */
    SYM_K2,                                  /* K / 2: bytes of a row of A and B */
    SYM_K64,                                 /* ceil(K / 64): scale words of a row */
    SYM_M128,                                /* ceil(M / 128): row blocks of SFA */
    SYM_N128,                                /* ceil(N / 128): row blocks of SFB */
    SYM_LDA,                                 /* row stride of A, bytes */
    SYM_LDB,                                 /* row stride of B, bytes */
    SYM_PIECES,                              /* + k: whole 16-byte pieces of a row of
                                                output k, 1 at least */
    SYM_LD = SYM_PIECES + IMAGE_MAX_OUTPUTS, /* + k: row stride of output k, bytes */
    SYM_COUNT = SYM_LD + IMAGE_MAX_OUTPUTS
};

struct image_size {
    uint64_t factor;
    enum image_symbol symbol;
};

/* Recipe of one cuTensorMapEncodeTiled call.  Arrays are innermost first. */
struct image_tensor {
    char name[16]; /* a b sfa sfb o0 o1 .. */
    int type;      /* CUtensorMapDataType */
    int rank;
    struct image_size dims[5];    /* elements */
    struct image_size strides[4]; /* bytes, of dimension 1 .. rank-1 */
    uint32_t box[5];              /* elements */
    int swizzle;                  /* CUtensorMapSwizzle */
    int l2_promotion;             /* CUtensorMapL2promotion */
};

enum image_param_kind {
    PARAM_TENSOR_MAP, /* 128 bytes, 64-byte aligned; `name` is a tensor */
    PARAM_U32,        /* name: m n k */
    PARAM_U64,        /* name: o0_ld, argld_NAME: row strides, bytes */
    PARAM_F32,        /* name: alpha */
    PARAM_B32,        /* name: arg_NAME: the bits of a scalar */
    PARAM_PTR,        /* 64-bit device address; name: alpha_ptr and argptr_NAME (or 0),
                         o0_ptr, o0_scales, arg_NAME */
};

/* What a parameter gets: of the problem, of output or argument `index`. */
enum image_source {
    FROM_PROBLEM, /* by name: a tensor, m n k alpha alpha_ptr */
    FROM_OUTPUT_PTR,
    FROM_OUTPUT_LD,
    FROM_OUTPUT_SCALES,
    FROM_ARG, /* value of a scalar, address of anything else */
    FROM_ARG_PTR,
    FROM_ARG_LD,
};

struct image_param {
    char name[24]; /* of other ops than gemm: runtime/quantize.c has the names */
    enum image_param_kind kind;
    enum image_source source; /* filled in by the reader */
    int index;
};

/* Rows are those of D. */
struct image_output {
    char name[16];        /* d */
    char format[16];      /* bf16 f32 nvfp4 .. amax */
    uint32_t bits;        /* of an element; amax: 0 */
    uint32_t cols_shift;  /* columns: N >> cols_shift */
    uint32_t scale_block; /* columns of a scale; 0: no scales */
};

enum image_arg_kind {
    ARG_SCALAR,
    ARG_COL, /* N >> cols_shift elements */
    ARG_ROW, /* M elements */
    ARG_AUX, /* M rows of N >> cols_shift elements */
};

/* What an epilogue wants beside the product. */
struct image_arg {
    char name[16];
    enum image_arg_kind kind;
    char type[8]; /* f32 s32 u32 bf16 f16 */
    uint32_t cols_shift;
    int is_scale; /* what values are divided by: finite and above 0 */
    int has_default;
    uint32_t default_bits;
};

struct image {
    const char *ptx; /* borrowed; NUL-terminated */
    size_t ptx_bytes;
    char generator[32]; /* "fp4gen 0.1.0" */
    char config[64];    /* name of the config */
    char config_hash[17];
    char kernel[128]; /* entry name, unique to the config */
    char op[32];      /* "gemm", or what gen/quantize.h lists; "" is gemm too */
    char target[16];
    int ptx_version;  /* times ten */
    uint32_t tile[3]; /* m n k, elements */
    uint32_t stages;
    uint32_t cluster[3];
    uint32_t smem_bytes; /* dynamic shared memory of one CTA */
    uint32_t threads;    /* of one CTA */
    char epilogue[32];   /* its name; custom: a function of the config */
    uint32_t n_multiple; /* N must be a multiple of it */
    struct image_output outputs[IMAGE_MAX_OUTPUTS];
    int output_count;
    struct image_arg args[IMAGE_MAX_ARGS];
    int arg_count;
    /* Of the epilogue, as gen/expr_text.c has it; borrowed.  The reader leaves it NULL:
     * manifest_expr() takes it out of the text. */
    const char *expr;
    /* Of other ops than gemm. */
    char x_type[8];      /* bf16 f16 f32; scales: "" */
    char x_form[16];     /* plain halves interleaved; scales: "" */
    char x_order[8];     /* gate_up up_gate; plain: gate_up */
    char layout[8];      /* of scales: linear 128x4 8x4 */
    char from_layout[8]; /* convert_scales */
    char rounding[16];   /* "" where nothing is rounded to E2M1 */
    char division[16];   /* exact reciprocal; likewise */
    struct image_tensor tensors[IMAGE_MAX_TENSORS];
    int tensor_count;
    struct image_param params[IMAGE_MAX_PARAMS];
    int param_count;
};

#endif
