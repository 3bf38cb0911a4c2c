// approx.cu - how far the approximate instructions of a GPU are from the exact value.
//
//   nvcc -O3 -arch=sm_90 -o approx tests/h200/approx.cu && ./approx
//
// Every f32 is tried (of two operands, 2^32 random pairs), and the result compared with
// f64 arithmetic.  A unit in the last place (ulp) is that of the exact value in f32,
// 2^-149 at least; with .ftz both zero and the subnormal value count as right where the
// exact value is subnormal.  "wrong" counts NaN for a number, infinity for a finite
// value and the like.  Prints lines for docs/numerics.md.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>

#define UNARY(name, text)                                                              \
    struct name {                                                                      \
        static const char *words() { return text; }                                    \
        static __device__ float run(float x)                                           \
        {                                                                              \
            float y;                                                                   \
            asm volatile(text " %0, %1;" : "=f"(y) : "f"(x));                          \
            return y;                                                                  \
        }                                                                              \
    };
UNARY(rcp, "rcp.approx.f32")
UNARY(rcp_ftz, "rcp.approx.ftz.f32")
UNARY(sqrt_, "sqrt.approx.f32")
UNARY(sqrt_ftz, "sqrt.approx.ftz.f32")
UNARY(rsqrt_, "rsqrt.approx.f32")
UNARY(rsqrt_ftz, "rsqrt.approx.ftz.f32")
UNARY(ex2, "ex2.approx.f32")
UNARY(ex2_ftz, "ex2.approx.ftz.f32")
UNARY(lg2, "lg2.approx.f32")
UNARY(lg2_ftz, "lg2.approx.ftz.f32")
UNARY(tanh_, "tanh.approx.f32")
UNARY(sin_, "sin.approx.f32")
UNARY(cos_, "cos.approx.f32")

__device__ double f_rcp(double x) { return 1 / x; }
__device__ double f_sqrt(double x) { return sqrt(x); }
__device__ double f_rsqrt(double x) { return 1 / sqrt(x); }
__device__ double f_ex2(double x) { return exp2(x); }
__device__ double f_lg2(double x) { return log2(x); }
__device__ double f_tanh(double x) { return tanh(x); }
__device__ double f_sin(double x) { return sin(x); }
__device__ double f_cos(double x) { return cos(x); }

struct worst {
    unsigned long long ulp, relative, absolute; // f32 bits of the error << 32 | input
    unsigned long long not_nearest, wrong, compared;
    unsigned long long first_wrong;             // input + 1
};

__device__ unsigned long long key(double error, uint32_t input)
{
    return (unsigned long long)__float_as_uint((float)error) << 32 | input;
}

__device__ void compare(struct worst *w, float y, double exact, bool ftz, uint32_t input)
{
    float nearest = (float)exact;
    if (isnan(exact) || isnan(y) || isinf(nearest) || isinf(y)) {
        bool same = isnan(exact) ? isnan(y) : y == nearest;
        // The largest finite value for infinity and the other way round is an ulp.
        if (!same && !(isinf(nearest) && !isnan(y) && fabsf(y) == 3.40282347e38f) &&
            !(isinf(y) && fabsf(nearest) == 3.40282347e38f)) {
            if (!w->wrong++)
                w->first_wrong = (unsigned long long)input + 1;
        }
        return;
    }
    double size = fabs(exact);
    w->compared++;
    if (ftz && size < 0x1p-126 && y == 0)
        return;
    int e = size < 0x1p-126 ? -126 : ilogb(size);
    double error = fabs((double)y - exact), ulps = error / ldexp(1.0, e - 23);
    unsigned long long k = key(ulps, input);
    w->not_nearest += y != nearest;
    w->ulp = k > w->ulp ? k : w->ulp;
    k = key(error, input);
    w->absolute = k > w->absolute ? k : w->absolute;
    if (size >= 0x1p-126) {
        k = key(error / size, input);
        w->relative = k > w->relative ? k : w->relative;
    }
}

__device__ void add(struct worst *to, const struct worst *w)
{
    atomicMax(&to->ulp, w->ulp);
    atomicMax(&to->relative, w->relative);
    atomicMax(&to->absolute, w->absolute);
    atomicAdd(&to->not_nearest, w->not_nearest);
    atomicAdd(&to->wrong, w->wrong);
    atomicAdd(&to->compared, w->compared);
    atomicMax(&to->first_wrong, w->first_wrong);
}

// Only inputs with lo <= |x| < hi, and of the sign asked for (0: both).
template <class Op, double (*exact)(double)>
__global__ void all_inputs(struct worst *to, bool ftz, float lo, float hi)
{
    struct worst w = {};
    for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < 1ull << 32;
         i += (uint64_t)gridDim.x * blockDim.x) {
        float x = __uint_as_float((uint32_t)i), size = fabsf(x);
        if (!(size >= lo && size < hi) && !(isnan(x) && lo == 0) &&
            !(isinf(x) && hi == INFINITY))
            continue;
        float in = ftz && size < 0x1p-126f ? copysignf(0, x) : x;
        compare(&w, Op::run(x), exact((double)in), ftz, (uint32_t)i);
    }
    add(to, &w);
}

__device__ uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

// Quotients; the divisor's size lies in [2^from, 2^to).
template <int kind> __global__ void quotients(struct worst *to, int from, int up_to)
{
    struct worst w = {};
    for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < 1ull << 32;
         i += (uint64_t)gridDim.x * blockDim.x) {
        uint64_t r = mix(i);
        float a = __uint_as_float((uint32_t)(r & 0x807fffff) | (127u - 20 + r / 256 % 40) << 23);
        uint32_t e = 127 + from + (uint32_t)(r >> 40) % (uint32_t)(up_to - from);
        float b = __uint_as_float((uint32_t)(r >> 32 & 0x807fffff) | e << 23), y;
        bool ftz = kind == 1 || kind == 3;
        if (kind == 0)
            asm volatile("div.approx.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
        else if (kind == 1)
            asm volatile("div.approx.ftz.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
        else if (kind == 2)
            asm volatile("div.full.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
        else
            asm volatile("div.full.ftz.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
        compare(&w, y, (double)a / (double)b, ftz, (uint32_t)i);
    }
    add(to, &w);
}

static float of(unsigned long long k)
{
    uint32_t b = (uint32_t)(k >> 32);
    float f;
    memcpy(&f, &b, 4);
    return f;
}

static struct worst *device;

static void start(void)
{
    cudaMemset(device, 0, sizeof *device);
}

static void show(const char *words, const char *range)
{
    struct worst w;
    cudaError_t e = cudaMemcpy(&w, device, sizeof w, cudaMemcpyDeviceToHost);
    if (e != cudaSuccess)
        printf("%s\n", cudaGetErrorString(e));
    printf("| `%s` | %s | %.3f at %08x | 2^%.2f at %08x | 2^%.2f at %08x | %.2f %% | %llu "
           "(%08llx) |\n",
           words, range, of(w.ulp), (uint32_t)w.ulp, log2(of(w.relative)),
           (uint32_t)w.relative, log2(of(w.absolute)), (uint32_t)w.absolute,
           w.compared ? 100.0 * w.not_nearest / w.compared : 0, w.wrong,
           w.first_wrong - 1);
}

template <class Op, double (*exact)(double)>
static void measure(bool ftz, const char *range = "all", float lo = 0, float hi = INFINITY)
{
    start();
    all_inputs<Op, exact><<<132 * 8, 256>>>(device, ftz, lo, hi);
    show(Op::words(), range);
}

template <int kind>
static void measure_quotient(const char *words, const char *range, int from, int up_to)
{
    start();
    quotients<kind><<<132 * 8, 256>>>(device, from, up_to);
    show(words, range);
}

// ---- f16 and bf16: all of them, errors in units of their own last place

template <int kind> __device__ uint16_t run16(uint16_t x)
{
    uint16_t y;
    if (kind == 0)
        asm volatile("tanh.approx.f16 %0, %1;" : "=h"(y) : "h"(x));
    else if (kind == 1)
        asm volatile("tanh.approx.bf16 %0, %1;" : "=h"(y) : "h"(x));
    else if (kind == 2)
        asm volatile("ex2.approx.f16 %0, %1;" : "=h"(y) : "h"(x));
    else
        asm volatile("ex2.approx.ftz.bf16 %0, %1;" : "=h"(y) : "h"(x));
    return y;
}

template <int kind> __global__ void all16(uint16_t *out)
{
    uint32_t x = blockIdx.x * blockDim.x + threadIdx.x;
    out[x] = run16<kind>((uint16_t)x);
}

static double value16(uint16_t h, bool bf16)
{
    int man = bf16 ? 7 : 10, bias = bf16 ? 127 : 15, top = bf16 ? 255 : 31;
    int e = h >> man & top, m = h & ((1 << man) - 1);
    double s = h >> 15 ? -1 : 1;
    if (e == top)
        return m ? NAN : s * INFINITY;
    return s * ldexp(e ? m + (1 << man) : m, (e ? e : 1) - bias - man);
}

template <int kind> static void measure16(const char *words)
{
    static uint16_t y[65536];
    uint16_t *out;
    bool bf16 = kind & 1;
    int man = bf16 ? 7 : 10, least = bf16 ? -126 : -14;
    double worst_ulp = 0, worst_relative = 0;
    uint32_t at = 0, off = 0, wrong = 0, compared = 0;
    cudaMalloc(&out, sizeof y);
    all16<kind><<<256, 256>>>(out);
    cudaMemcpy(y, out, sizeof y, cudaMemcpyDeviceToHost);
    cudaFree(out);
    for (uint32_t x = 0; x < 65536; x++) {
        double in = value16((uint16_t)x, bf16), got = value16(y[x], bf16);
        if (kind == 3 && fabs(in) < 0x1p-126)
            in = 0;
        double exact = kind < 2 ? tanh(in) : exp2(in);
        double limit = bf16 ? 0x1.ffp127 : 65520;
        if (isnan(exact) || isnan(got) || isinf(got) || fabs(exact) >= limit) {
            wrong += !(isnan(exact) ? isnan(got) : isinf(got) && exact > limit * 0.99);
            continue;
        }
        compared++;
        if (kind == 3 && exact < 0x1p-126 && got == 0)
            continue;
        int e = fabs(exact) < ldexp(1, least) ? least : ilogb(exact);
        double error = fabs(got - exact), ulps = error / ldexp(1, e - man);
        off += ulps > 0.5;
        if (ulps > worst_ulp) {
            worst_ulp = ulps;
            at = x;
        }
        if (fabs(exact) >= ldexp(1, least) && error / fabs(exact) > worst_relative)
            worst_relative = error / fabs(exact);
    }
    printf("| `%s` | all | %.3f at %04x | 2^%.2f | | %.2f %% | %u |\n", words, worst_ulp,
           at, log2(worst_relative), 100.0 * off / compared, wrong);
}

int main(void)
{
    cudaMalloc(&device, sizeof *device);
    printf("| instruction | inputs | ulp | relative | absolute | not nearest | wrong |\n"
           "|---|---|---|---|---|---|---|\n");
    measure<rcp, f_rcp>(false);
    measure<rcp_ftz, f_rcp>(true);
    measure<sqrt_, f_sqrt>(false);
    measure<sqrt_ftz, f_sqrt>(true);
    measure<rsqrt_, f_rsqrt>(false);
    measure<rsqrt_ftz, f_rsqrt>(true);
    measure<ex2, f_ex2>(false);
    measure<ex2_ftz, f_ex2>(true);
    measure<lg2, f_lg2>(false, "beyond 1/2 .. 2", 2);
    measure<lg2, f_lg2>(false, "below 1/2", 0, 0.5f);
    measure<lg2, f_lg2>(false, "1/2 .. 2", 0.5f, 2);
    measure<lg2_ftz, f_lg2>(true, "beyond 1/2 .. 2", 2);
    measure<lg2_ftz, f_lg2>(true, "below 1/2", 0, 0.5f);
    measure<lg2_ftz, f_lg2>(true, "1/2 .. 2", 0.5f, 2);
    measure<tanh_, f_tanh>(false);
    measure<sin_, f_sin>(false, "to pi", 0, 3.14159274f);
    measure<sin_, f_sin>(false, "to 100 pi", 0, 314.159265f);
    measure<cos_, f_cos>(false, "to pi", 0, 3.14159274f);
    measure<cos_, f_cos>(false, "to 100 pi", 0, 314.159265f);
    measure_quotient<0>("div.approx.f32", "divisor 2^-126 .. 2^126", -126, 126);
    measure_quotient<1>("div.approx.ftz.f32", "divisor 2^-126 .. 2^126", -126, 126);
    measure_quotient<2>("div.full.f32", "divisor 2^-126 .. 2^127", -126, 127);
    measure_quotient<3>("div.full.ftz.f32", "divisor 2^-126 .. 2^127", -126, 127);
    measure16<0>("tanh.approx.f16");
    measure16<1>("tanh.approx.bf16");
    measure16<2>("ex2.approx.f16");
    measure16<3>("ex2.approx.ftz.bf16");
    return 0;
}
