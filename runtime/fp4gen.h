/* fp4gen.h - loads and launches the kernels that `gen` writes.
 *
 * A thin layer over the CUDA Driver API (libcuda.so.1 is opened with dlopen).  It
 * never exits, never prints and has no global state; handles may be used from several
 * threads at once, errors are returned per call.
 *
 *   D[m][n] = alpha * sum over k of (A[m][k] SFA[m][k/16]) (B[n][k] SFB[n][k/16])
 *
 *   A    m x k  packed E2M1, two per byte, low nibble first, row stride lda bytes
 *   B    n x k  likewise, row stride ldb bytes
 *   SFA  UE4M3, one per 16 values of a row of A, in the 128x4 block layout of cuBLAS,
 *        CUTLASS and FlashInfer: ceil(m/128) * ceil(k/64) * 512 bytes
 *   SFB  likewise for B:        ceil(n/128) * ceil(k/64) * 512 bytes
 *   D    m x n  bf16 or f32 as the kernel says, row-major, row stride ldd bytes
 *
 * An epilogue makes something else of the product: other formats, n/2 columns, scales,
 * several outputs; and it may want parameters.  fp4gen_kernel_info says what there is,
 * fp4gen_output and fp4gen_arg give it, by name.  D is the first output.
 *
 * Row strides and base addresses are multiples of 16 bytes (cuTensorMapEncodeTiled).
 * k is even.  Scale rows past m or n and scale bytes past k may hold anything. */
#ifndef FP4GEN_H
#define FP4GEN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(                                                           \
    default) /* all that libfp4gen.so exports is declared here */
#endif

#define FP4GEN_VERSION "0.1.0"

typedef enum fp4gen_status {
    FP4GEN_OK = 0,
    FP4GEN_NO_DRIVER,    /* libcuda.so.1 cannot be opened, or lacks an entry point */
    FP4GEN_NO_DEVICE,    /* no such device */
    FP4GEN_BAD_PTX,      /* not a kernel of ours, truncated, unknown manifest version */
    FP4GEN_BAD_ARGUMENT, /* size, stride, alignment, null pointer */
    FP4GEN_LOAD_FAILED,  /* the driver refused the PTX; the error holds its log */
    FP4GEN_LAUNCH_FAILED, /* the driver refused the launch, or the kernel faulted */
    FP4GEN_OUT_OF_MEMORY
} fp4gen_status;

/* Filled by every call that fails, when not NULL. */
typedef struct fp4gen_error {
    fp4gen_status status;
    int cuda;        /* CUresult, 0 when the driver was not involved */
    char code[32];   /* which message: "tensor-stride"; core/diag.def has them all */
    char text[4096]; /* one message: what, the value, what is allowed */
} fp4gen_error;

typedef enum fp4gen_driver {
    FP4GEN_DRIVER_AUTO, /* the real one if it has a device that runs the target, else
                           the emulator */
    FP4GEN_DRIVER_CUDA,
    FP4GEN_DRIVER_EMU
} fp4gen_driver;

typedef struct fp4gen_device fp4gen_device; /* driver, device, context */
typedef struct fp4gen_kernel fp4gen_kernel; /* a loaded module and its manifest */

typedef struct fp4gen_device_info {
    char name[128]; /* "NVIDIA B200", "fp4gen emulator (sm_100)" */
    int cc;         /* compute capability times ten */
    int sm_count;
    int driver_version; /* as cuDriverGetVersion: 12090 */
    int emulated;       /* 1: the CPU emulator */
    char note[256];     /* why AUTO took the emulator, or "" */
} fp4gen_device_info;

/* `ordinal` -1: the first device that can run `target`, else the first.  `target`
 * ("sm_100f", may be NULL) lets AUTO choose between the drivers.  AUTO honours
 * FP4GEN_DRIVER=auto|cuda|emu.  The emulator is the file that FP4GEN_EMU_LIB names,
 * else emu/libcuda.so.1 beside libfp4gen.so or ../lib/emu/libcuda.so.1 from the
 * program. */
fp4gen_status fp4gen_open(fp4gen_device **out, fp4gen_driver driver, int ordinal,
                          const char *target, fp4gen_error *err);
/* Kernels and modules of the device must be unloaded before. */
void fp4gen_close(fp4gen_device *dev);
void fp4gen_device_get_info(const fp4gen_device *dev, fp4gen_device_info *out);
/* Address of a symbol of the driver's library, as of dlsym; NULL when there is none.
 * The emulator's own, fp4emu.h (here emu/fp4emu.h), are reached through it. */
void *fp4gen_driver_symbol(const fp4gen_device *dev, const char *name);

/* `ptx` is the text that `gen` wrote; it is copied. */
fp4gen_status fp4gen_load(fp4gen_kernel **out, fp4gen_device *dev, const char *ptx,
                          size_t ptx_bytes, fp4gen_error *err);
void fp4gen_unload(fp4gen_kernel *k);

typedef struct fp4gen_kernel_info {
    char name[128]; /* entry */
    char target[16];
    uint32_t tile_m, tile_n, tile_k, stages, smem_bytes, threads;
    int d_is_f32;        /* is the first output f32? */
    char epilogue[32];   /* "identity" */
    uint32_t n_multiple; /* n must be a multiple of it */
    uint32_t output_count, arg_count;
    struct fp4gen_output_info {
        char name[16];        /* "d" */
        char format[16];      /* f32 bf16 f16 e4m3 e5m2 e2m1 nvfp4 mxfp4 mxfp8_e4m3
                                 mxfp8_e5m2, or amax: one f32, which is raised */
        uint32_t bits;        /* of an element */
        uint32_t cols_shift;  /* it has n >> cols_shift columns */
        uint32_t scale_block; /* columns of a scale byte; 0: no scales */
    } outputs[4];
    struct fp4gen_arg_info {
        char name[16];
        char kind[8]; /* scalar, col: one a column, row: one a row, aux: m rows */
        char type[8]; /* f32 s32 u32, bf16 f16 but for scalars */
        uint32_t cols_shift; /* col and aux have n >> cols_shift columns */
        int has_default;     /* of scalars: it may be left out */
    } args[16];
} fp4gen_kernel_info;
void fp4gen_kernel_get_info(const fp4gen_kernel *k, fp4gen_kernel_info *out);

/* A parameter of the epilogue.  What a kind has no use for stays 0, here and below:
 * anything else is refused, as it would have no effect. */
typedef struct fp4gen_arg {
    const char *name;
    double value; /* of a scalar alone; used when address is 0.  What values are divided
                     by, as a global scale, must be finite and above 0; behind an
                     address nobody looks. */
    uint64_t address; /* on the device: of a scalar, or 0; of the elements else, a
                         multiple of 16 */
    uint64_t ld;      /* of aux alone: bytes from row to row; 0: dense */
} fp4gen_arg;

/* An output of the epilogue. */
typedef struct fp4gen_output {
    const char *name;
    uint64_t address; /* of the elements; of amax's f32 */
    uint64_t ld;      /* bytes from row to row; 0: dense; amax has none */
    uint64_t scales;  /* 128x4 block layout, as SFA, of m rows; padding is set to 0; of
                         formats with scale_block alone */
} fp4gen_output;

typedef struct fp4gen_gemm {
    uint32_t m, n, k;             /* elements */
    uint64_t a, b, sfa, sfb, d;   /* device addresses */
    uint64_t lda, ldb, ldd;       /* bytes; 0: dense */
    float alpha;                  /* used when alpha_ptr is 0 */
    uint64_t alpha_ptr;           /* device address of one float, or 0 */
    void *stream;                 /* CUstream, NULL: the default stream */
    uint32_t ctas;                /* grid size, 0: as many as there are SMs */
    uint64_t d_scales;            /* d, ldd, d_scales: the first output, if it is not
                                     among `outputs` */
    const fp4gen_output *outputs; /* these two may be NULL where their count is 0 */
    const fp4gen_arg *args;
    uint32_t output_count, arg_count;
} fp4gen_gemm;
/* Would fp4gen_run take these sizes and strides?  Fills in strides that are 0; does not
 * look at addresses. */
fp4gen_status fp4gen_check(const fp4gen_kernel *k, fp4gen_gemm *g, fp4gen_error *err);
/* m = 0 or n = 0 is a no-op; with k = 0 all sums of products are 0, and without an
 * epilogue D is, whatever alpha.  Asynchronous in the stream. */
fp4gen_status fp4gen_run(fp4gen_kernel *k, const fp4gen_gemm *g, fp4gen_error *err);
/* The same, waits for the result and says how long it took between two events. */
fp4gen_status fp4gen_run_timed(fp4gen_kernel *k, const fp4gen_gemm *g,
                               float *milliseconds, fp4gen_error *err);

/* The kernels beside the GEMM: quantize_nvfp4, deinterleave_quantize_nvfp4,
 * silu_mul_quantize_nvfp4, dequantize_nvfp4, convert_scales.
 *
 *   X       m x k (or m x 2k: gate and up) bf16, f16 or f32 as the kernel says
 *   codes   m x k packed E2M1, two per byte, low nibble first
 *   scales  UE4M3, one per 16 values of a row, in the layout that the kernel says:
 *             linear  rows of ceil(k/16) bytes, lds bytes apart
 *             128x4   ceil(m/128) * ceil(k/64) * 512 bytes, as the GEMM wants them
 *             8x4     ceil(m/8) * ceil(k/64) * 32 bytes
 *
 * The global scale is a value, or a device pointer, or follows from amax: of X, or of
 * silu(gate) * up, over the finite values.  amax / 2688, 1 where amax is 0, and 2^-126
 * at least.  Rows of X are read in whole 16 bytes, padding of codes is never written,
 * padding scales of the blocked layouts are written as 0.  Addresses and strides that
 * the kernel has no use for, as `from` of all but convert_scales, are refused. */
typedef struct fp4gen_quantize_args {
    uint32_t m, k;        /* rows; columns of the codes */
    uint64_t x, ldx;      /* device address, row stride in bytes; 0: dense */
    uint64_t codes, ldc;  /* likewise */
    uint64_t scales, lds; /* lds: of linear scales, 0: dense; else 0 */
    uint64_t from, ldf;   /* convert_scales: what is read */
    float global;         /* used when the two pointers are 0 */
    uint64_t global_ptr;  /* device address of one float, or 0 */
    uint64_t amax_ptr;    /* likewise: amax is computed there first, or 0 */
    int amax_is_ready;    /* amax_ptr holds it already: one pass less */
    uint64_t global_out;  /* device address where the global scale is written, or 0 */
    uint32_t seed;        /* of stochastic rounding */
    void *stream;         /* CUstream, NULL: the default stream */
} fp4gen_quantize_args;
/* Would fp4gen_quantize take these sizes and strides?  Fills in strides that are 0;
 * does not look at addresses. */
fp4gen_status fp4gen_quantize_check(const fp4gen_kernel *k, fp4gen_quantize_args *q,
                                    fp4gen_error *err);
/* m = 0 or k = 0 is a no-op.  Asynchronous in the stream. */
fp4gen_status fp4gen_quantize(fp4gen_kernel *k, const fp4gen_quantize_args *q,
                              fp4gen_error *err);
/* The same, waits for the result and says how long it took between two events. */
fp4gen_status fp4gen_quantize_timed(fp4gen_kernel *k, const fp4gen_quantize_args *q,
                                    float *milliseconds, fp4gen_error *err);
/* Bytes of scales: `layout` is linear (with its stride), 128x4 or 8x4; 0: unknown. */
uint64_t fp4gen_scale_bytes(const char *layout, uint32_t m, uint32_t k, uint64_t lds);

/* Any kernel, any parameters: for the parts of a pipeline that are not GEMMs. */
typedef struct fp4gen_launch {
    const char *entry;                      /* name of the .entry */
    uint32_t grid[3], block[3], cluster[3]; /* cluster 0: none */
    uint32_t smem_bytes;                    /* dynamic */
    void **params;                          /* as cuLaunchKernel */
    void *stream;
} fp4gen_launch;
typedef struct fp4gen_module fp4gen_module;
fp4gen_status fp4gen_module_load(fp4gen_module **out, fp4gen_device *dev,
                                 const char *ptx, size_t ptx_bytes, fp4gen_error *err);
fp4gen_status fp4gen_module_launch(fp4gen_module *m, const fp4gen_launch *l,
                                   fp4gen_error *err);
void fp4gen_module_unload(fp4gen_module *m);

typedef struct fp4gen_tensor_map { /* 128 bytes, 64-byte aligned, pass as parameter */
#ifdef __cplusplus
    alignas(64) unsigned char bytes[128];
#else
    _Alignas(64) unsigned char bytes[128];
#endif
} fp4gen_tensor_map;
/* Checks every rule of cuTensorMapEncodeTiled by name before the driver is asked. */
typedef struct fp4gen_tensor_desc {
    const char *name; /* for messages */
    int type, rank;   /* CUtensorMapDataType; 1..5 */
    uint64_t address;
    uint64_t dims[5], strides[4]; /* elements; bytes of dimension 1.. */
    uint32_t box[5];              /* elements */
    int swizzle, l2_promotion;    /* CUtensorMapSwizzle, CUtensorMapL2promotion */
} fp4gen_tensor_desc;
fp4gen_status fp4gen_encode(fp4gen_device *dev, fp4gen_tensor_map *out,
                            const fp4gen_tensor_desc *t, fp4gen_error *err);

/* Device memory, for programs that have nothing else to get it from. */
fp4gen_status fp4gen_alloc(fp4gen_device *dev, uint64_t *address, size_t bytes,
                           fp4gen_error *err);
fp4gen_status fp4gen_free(fp4gen_device *dev, uint64_t address, fp4gen_error *err);
fp4gen_status fp4gen_upload(fp4gen_device *dev, uint64_t to, const void *from,
                            size_t bytes, fp4gen_error *err);
fp4gen_status fp4gen_download(fp4gen_device *dev, void *to, uint64_t from, size_t bytes,
                              fp4gen_error *err);
fp4gen_status fp4gen_fill(fp4gen_device *dev, uint64_t to, unsigned char byte,
                          size_t bytes, fp4gen_error *err);
/* Waits for `stream` (NULL: default) and returns what a kernel in it did wrong. */
fp4gen_status fp4gen_sync(fp4gen_device *dev, void *stream, fp4gen_error *err);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
