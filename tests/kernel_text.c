#include "tests/kernel_text.h"

#include "tests/test.h"

#include <string.h>

const char kernel_manifest[] =
    "fp4gen-manifest 3\n"
    "generator: fp4gen 0.1.0\n"
    "config: nvfp4_gemm\n"
    "config-hash: 0123456789abcdef\n"
    "kernel: fp4gen_test_kernel\n"
    "target: sm_100f\n"
    "ptx-version: 8.8\n"
    "tile: 128 256 256\n"
    "stages: 4\n"
    "cluster: 1 1 1\n"
    "smem-bytes: 229632\n"
    "threads: 192\n"
    "epilogue: identity\n"
    "n-multiple: 1\n"
    "output: d format=bf16 cols=n bits=16 scales=0\n"
    "tensor: a type=uint8 dims=k2,m strides=lda box=128,128 "
    "swizzle=128b l2=256b\n"
    "tensor: b type=uint8 dims=k2,n strides=ldb box=128,256 "
    "swizzle=128b l2=256b\n"
    "tensor: sfa type=uint16 dims=256,k64,m128 strides=512,512*k64 "
    "box=256,4,1 swizzle=none l2=128b\n"
    "tensor: sfb type=uint16 dims=256,k64,n128 strides=512,512*k64 "
    "box=256,4,2 swizzle=none l2=128b\n"
    "tensor: o0 type=bfloat16 dims=8*o0_pieces,m strides=o0_ld box=32,32 "
    "swizzle=64b l2=128b\n"
    "param: a tensor-map\n"
    "param: b tensor-map\n"
    "param: sfa tensor-map\n"
    "param: sfb tensor-map\n"
    "param: o0 tensor-map\n"
    "param: m u32\n"
    "param: n u32\n"
    "param: k u32\n"
    "param: alpha f32\n"
    "param: alpha_ptr ptr\n"
    "param: o0_ptr ptr\n"
    "param: o0_ld u64\n"
    "end-manifest\n";

const char kernel_epilogue[] =
    "fp4gen-manifest 3\n"
    "generator: fp4gen 0.1.0\n"
    "config: nvfp4_gemm\n"
    "config-hash: 0123456789abcdef\n"
    "kernel: fp4gen_test_kernel\n"
    "target: sm_100f\n"
    "ptx-version: 8.8\n"
    "tile: 128 256 256\n"
    "stages: 4\n"
    "cluster: 1 1 1\n"
    "smem-bytes: 229632\n"
    "threads: 192\n"
    "epilogue: custom\n"
    "n-multiple: 16\n"
    "output: d format=nvfp4 cols=n/2 bits=4 scales=16\n"
    "output: amax format=amax cols=0 bits=0 scales=0\n"
    "arg: d_global kind=scalar type=f32 use=scale\n"
    "arg: shift kind=scalar type=s32 default=0xfffffffe\n"
    "arg: bias kind=col type=f32 cols=n/2\n"
    "arg: c kind=aux type=bf16 cols=n\n"
    "expr: expr 1\n"
    "expr: n unscaled f32 0\n"
    "tensor: a type=uint8 dims=k2,m strides=lda box=128,128 swizzle=128b l2=256b\n"
    "tensor: sfa type=uint16 dims=256,k64,m128 strides=512,512*k64 box=256,4,1 "
    "swizzle=none l2=128b\n"
    "tensor: o0 type=uint8 dims=16*o0_pieces,m strides=o0_ld box=64,32 swizzle=64b "
    "l2=128b\n"
    "param: a tensor-map\n"
    "param: sfa tensor-map\n"
    "param: o0 tensor-map\n"
    "param: m u32\n"
    "param: k u32\n"
    "param: alpha f32\n"
    "param: o0_ptr ptr\n"
    "param: o0_ld u64\n"
    "param: o0_scales ptr\n"
    "param: o1_ptr ptr\n"
    "param: arg_d_global b32\n"
    "param: argptr_d_global ptr\n"
    "param: arg_shift b32\n"
    "param: argptr_shift ptr\n"
    "param: arg_bias ptr\n"
    "param: arg_c ptr\n"
    "param: argld_c u64\n"
    "end-manifest\n";

char *text_replaced(struct arena *a, const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    CHECK(at != NULL);
    return arena_printf(a, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
}

char *kernel_text(struct arena *a, const char *manifest)
{
    struct buf b;
    buf_init(&b, a);
    buf_puts(&b, "// A kernel.\n");
    for (const char *line = manifest; *line; line = strchr(line, '\n') + 1)
        buf_printf(&b, "// %.*s\n", (int)strcspn(line, "\n"), line);
    buf_puts(&b, ".version 8.8\n.target sm_100f\n.address_size 64\n"
                 ".visible .entry fp4gen_test_kernel()\n{\n  ret;\n}\n");
    buf_printf(&b, ".visible .const .align 8 .b8 fp4gen_manifest[%zu] = {",
               strlen(manifest));
    for (const char *c = manifest; *c; c++)
        buf_printf(&b, "%s%d", c == manifest ? "" : ",", (unsigned char)*c);
    buf_puts(&b, "};\n");
    return b.data;
}
