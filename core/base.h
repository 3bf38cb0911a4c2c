/* base.h - arena, growing text buffer, little helpers; needs nothing but libc.
 *
 * A job owns one arena; everything that its steps make lives there and goes at
 * once.  Running out of host memory for these small texts aborts the process: it
 * is the one failure that is not reported as a diagnostic. */
#ifndef FP4GEN_BASE_H
#define FP4GEN_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__)
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))
#define EXPORTED __attribute__((visibility("default")))
#else
#define PRINTF_LIKE(fmt, args)
#define EXPORTED
#endif

#define COUNT_OF(a) (sizeof(a) / sizeof((a)[0]))

struct arena;

struct arena *arena_new(void);
void arena_free(struct arena *a);
/* Zeroed, aligned for any type, never NULL. */
void *arena_alloc(struct arena *a, size_t bytes);
char *arena_strndup(struct arena *a, const char *s, size_t bytes);
char *arena_strdup(struct arena *a, const char *s);
char *arena_printf(struct arena *a, const char *fmt, ...) PRINTF_LIKE(2, 3);
char *arena_vprintf(struct arena *a, const char *fmt, va_list args) PRINTF_LIKE(2, 0);

#define ARENA_NEW(a, type) ((type *)arena_alloc((a), sizeof(type)))
#define ARENA_ARRAY(a, type, count) ((type *)arena_alloc((a), (count) * sizeof(type)))

/* A text that grows.  `data` is NUL-terminated once something was added. */
struct buf {
    struct arena *arena; /* borrowed */
    char *data;
    size_t bytes, cap_bytes;
};

void buf_init(struct buf *b, struct arena *a);
void buf_add(struct buf *b, const void *data, size_t bytes);
void buf_puts(struct buf *b, const char *s);
void buf_printf(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
void buf_vprintf(struct buf *b, const char *fmt, va_list args) PRINTF_LIKE(2, 0);

/* Whole file into the arena, NUL-terminated (the NUL not counted in *bytes).
 * NULL with errno set when it cannot be read, or has more than 256 MiB. */
char *file_read(struct arena *a, const char *path, size_t *bytes);
/* Writes beside `path` and renames, so that no reader sees half a file. */
bool file_write(const char *path, const void *data, size_t bytes);

uint64_t hash_bytes(const void *data, size_t bytes); /* FNV-1a, 64 bits */

/* For messages: "" where f32 holds x, or the like of it; else how it does not. */
static inline const char *beyond_f32(double x)
{
    const double size = x < 0 ? -x : x;
    if (size > 0 && size <= 0x1p-150) /* it would become 0 */
        return ", below 1.4e-45, the smallest of f32";
    if (size >= 0x1.ffffffp127 && size <= 0x1.fffffffffffffp1023) /* infinity */
        return ", above 3.4028235e38, the largest of f32";
    return "";
}

static inline uint32_t align_up(uint32_t x, uint32_t to)
{
    return (x + to - 1) / to * to;
}

static inline uint32_t ceil_div(uint32_t x, uint32_t by)
{
    return x / by + (x % by != 0);
}

/* ---- floats and their bits */

static inline float f32_of(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint32_t bits_of_f32(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static inline double f64_of(uint64_t bits)
{
    double f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint64_t bits_of_f64(double f)
{
    uint64_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

#endif
