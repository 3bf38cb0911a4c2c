#include "core/base.h"

#include <errno.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct block {
    struct block *next;
    size_t used_bytes, cap_bytes;
    alignas(max_align_t) char data[];
};

struct arena {
    struct block *blocks; /* newest first */
};

static void out_of_memory(void)
{
    fputs("fp4gen: out of host memory\n", stderr);
    abort();
}

struct arena *arena_new(void)
{
    struct arena *a = calloc(1, sizeof *a);
    if (!a)
        out_of_memory();
    return a;
}

void arena_free(struct arena *a)
{
    if (!a)
        return;
    for (struct block *b = a->blocks, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    free(a);
}

void *arena_alloc(struct arena *a, size_t bytes)
{
    const size_t unit = alignof(max_align_t), first_block = 16384;
    if (bytes > SIZE_MAX / 4)
        out_of_memory();
    bytes = (bytes + unit - 1) / unit * unit;
    struct block *b = a->blocks;
    if (!b || b->cap_bytes - b->used_bytes < bytes) {
        size_t cap = b ? b->cap_bytes * 2 : first_block;
        if (cap > (size_t)1 << 20)
            cap = (size_t)1 << 20;
        if (cap < bytes)
            cap = bytes;
        b = malloc(sizeof *b + cap);
        if (!b)
            out_of_memory();
        b->next = a->blocks;
        b->used_bytes = 0;
        b->cap_bytes = cap;
        a->blocks = b;
    }
    void *p = b->data + b->used_bytes;
    b->used_bytes += bytes;
    return memset(p, 0, bytes);
}

char *arena_strndup(struct arena *a, const char *s, size_t bytes)
{
    char *p = arena_alloc(a, bytes + 1);
    memcpy(p, s, bytes);
    return p;
}

char *arena_strdup(struct arena *a, const char *s)
{
    return arena_strndup(a, s, strlen(s));
}

char *arena_vprintf(struct arena *a, const char *fmt, va_list args)
{
    va_list again;
    va_copy(again, args);
    int chars = vsnprintf(NULL, 0, fmt, args);
    char *p = arena_alloc(a, (size_t)(chars < 0 ? 0 : chars) + 1);
    if (chars > 0)
        vsnprintf(p, (size_t)chars + 1, fmt, again);
    va_end(again);
    return p;
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    char *p = arena_vprintf(a, fmt, args);
    va_end(args);
    return p;
}

void buf_init(struct buf *b, struct arena *a)
{
    *b = (struct buf){.arena = a};
}

static void buf_reserve(struct buf *b, size_t more)
{
    if (b->cap_bytes - b->bytes > more)
        return;
    size_t cap = b->cap_bytes ? b->cap_bytes * 2 : 256;
    while (cap - b->bytes <= more)
        cap *= 2;
    char *data = arena_alloc(b->arena, cap);
    if (b->bytes)
        memcpy(data, b->data, b->bytes);
    b->data = data;
    b->cap_bytes = cap;
}

void buf_add(struct buf *b, const void *data, size_t bytes)
{
    buf_reserve(b, bytes);
    if (bytes)
        memcpy(b->data + b->bytes, data, bytes);
    b->bytes += bytes;
    b->data[b->bytes] = '\0';
}

void buf_puts(struct buf *b, const char *s)
{
    buf_add(b, s, strlen(s));
}

void buf_vprintf(struct buf *b, const char *fmt, va_list args)
{
    va_list again;
    va_copy(again, args);
    int chars = vsnprintf(NULL, 0, fmt, args);
    if (chars > 0) {
        buf_reserve(b, (size_t)chars);
        vsnprintf(b->data + b->bytes, (size_t)chars + 1, fmt, again);
        b->bytes += (size_t)chars;
    }
    va_end(again);
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    buf_vprintf(b, fmt, args);
    va_end(args);
}

/* Some names never end, /dev/zero for one. */
#define FILE_MAX_BYTES ((size_t)1 << 28)

char *file_read(struct arena *a, const char *path, size_t *bytes)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    struct stat st;
    if (fstat(fileno(f), &st) == 0 && S_ISDIR(st.st_mode)) {
        fclose(f);
        errno = EISDIR;
        return NULL;
    }
    struct buf b;
    buf_init(&b, a);
    buf_puts(&b, "");
    char chunk[16384];
    size_t got;
    while (b.bytes <= FILE_MAX_BYTES && (got = fread(chunk, 1, sizeof chunk, f)) > 0)
        buf_add(&b, chunk, got);
    int failed = ferror(f) ? (errno ? errno : EIO) : 0;
    if (b.bytes > FILE_MAX_BYTES)
        failed = EFBIG;
    fclose(f);
    if (failed) {
        errno = failed;
        return NULL;
    }
    *bytes = b.bytes;
    return b.data;
}

bool file_write(const char *path, const void *data, size_t bytes)
{
    struct stat st;
    /* A pipe or a device cannot be renamed over. */
    bool direct = stat(path, &st) == 0 && !S_ISREG(st.st_mode);
    size_t name_bytes = strlen(path) + 32;
    char *tmp = malloc(name_bytes);
    if (!tmp)
        return false;
    if (direct)
        snprintf(tmp, name_bytes, "%s", path);
    else
        snprintf(tmp, name_bytes, "%s.tmp.%ld", path, (long)getpid());
    FILE *f = fopen(tmp, "wb");
    bool ok = f && fwrite(data, 1, bytes, f) == bytes;
    int saved = errno;
    if (f && fclose(f) != 0 && ok) {
        saved = errno;
        ok = false;
    }
    if (ok && !direct && rename(tmp, path) != 0) {
        saved = errno;
        ok = false;
    }
    if (!ok && f && !direct)
        unlink(tmp);
    free(tmp);
    errno = saved;
    return ok;
}

uint64_t hash_bytes(const void *data, size_t bytes)
{
    const unsigned char *p = data;
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < bytes; i++)
        h = (h ^ p[i]) * 0x100000001b3u;
    return h;
}
