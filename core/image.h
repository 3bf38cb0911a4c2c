/* image.h - PTX and all that a launch needs; a struct, no functions.
 *
 * The manifest is a block of comment lines in the PTX, "// key: value", between
 * "// fp4gen-manifest 1" and "// end-manifest", and the same bytes without "// " in
 * the module constant fp4gen_manifest.  gen/manifest.c writes it, runtime/manifest.c
 * reads it from the text.  docs/manifest.md lists the keys. */
#ifndef FP4GEN_IMAGE_H
#define FP4GEN_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#define IMAGE_MANIFEST_VERSION 1
#define IMAGE_MAX_TENSORS 16
#define IMAGE_MAX_PARAMS 32

/* A size in a tensor map that depends on the problem: factor * symbol. */
enum image_symbol {
    SYM_ONE,  /* the factor alone */
    SYM_M,    /* rows of A and D */
    SYM_N,    /* rows of B, columns of D */
    SYM_K,    /* columns of A and B, FP4 elements */
    SYM_K2,   /* K / 2: bytes of a row of A and B */
    SYM_N8,   /* N rounded down to a multiple of 8, 8 at least */
    SYM_N4,   /* ... of 4: columns that fill whole 16 bytes of a row of f32 */
    SYM_K64,  /* ceil(K / 64): scale words of a row */
    SYM_M128, /* ceil(M / 128): row blocks of SFA */
    SYM_N128, /* ceil(N / 128): row blocks of SFB */
    SYM_LDA,  /* row stride of A, bytes */
    SYM_LDB,  /* row stride of B, bytes */
    SYM_LDD,  /* row stride of D, bytes */
};

struct image_size {
    uint64_t factor;
    enum image_symbol symbol;
};

/* Recipe of one cuTensorMapEncodeTiled call.  Arrays are innermost first. */
struct image_tensor {
    char name[16]; /* a b sfa sfb d */
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
    PARAM_U64,        /* name: ldd */
    PARAM_F32,        /* name: alpha */
    PARAM_PTR,        /* name: alpha_ptr (or 0), d_ptr; 64-bit device address */
};

struct image_param {
    char name[16]; /* of other ops than gemm: runtime/quantize.c has the names */
    enum image_param_kind kind;
};

struct image {
    const char *ptx; /* borrowed; NUL-terminated */
    size_t ptx_bytes;
    char generator[32]; /* "fp4gen 0.1.0" */
    char config[64];    /* name of the config */
    char config_hash[17];
    char kernel[128]; /* entry name, unique to the config */
    char op[32]; /* "gemm", or what gen/quantize.h lists; "" is gemm too */
    char target[16];
    int ptx_version;  /* times ten */
    uint32_t tile[3]; /* m n k, elements */
    uint32_t stages;
    uint32_t cluster[3];
    uint32_t smem_bytes; /* dynamic shared memory of one CTA */
    uint32_t threads;    /* of one CTA */
    char d_type[8];      /* bf16 or f32 */
    char epilogue[32];
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
