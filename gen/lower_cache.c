#include "gen/lower_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC "fp4gen-epilogue 1"

/* Kept until the process ends. */
struct entry {
    char *key, *reply;
    size_t reply_bytes;
    uint64_t hash;
    struct entry *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry *entries;

static uint64_t hash_of(const char *key)
{
    return hash_bytes(key, strlen(key));
}

/* ---- in memory */

static const struct entry *find_entry(const char *key)
{
    uint64_t hash = hash_of(key);
    for (const struct entry *e = entries; e; e = e->next)
        if (e->hash == hash && strcmp(e->key, key) == 0)
            return e;
    return NULL;
}

static char *copy(const char *s, size_t bytes)
{
    char *p = malloc(bytes + 1);
    if (p) {
        memcpy(p, s, bytes);
        p[bytes] = '\0';
    }
    return p;
}

static void add_entry(const char *key, const char *reply, size_t reply_bytes)
{
    const struct entry *had = find_entry(key);
    if (had && had->reply_bytes == reply_bytes &&
        memcmp(had->reply, reply, reply_bytes) == 0)
        return;
    struct entry *e = malloc(sizeof *e);
    char *key_copy = copy(key, strlen(key)), *reply_copy = copy(reply, reply_bytes);
    if (!e || !key_copy || !reply_copy) { /* it is only a cache */
        free(e);
        free(key_copy);
        free(reply_copy);
        return;
    }
    *e = (struct entry){key_copy, reply_copy, reply_bytes, hash_of(key), entries};
    entries = e; /* before one that it replaces, which others may be copying */
}

/* ---- on disk */

/* NULL: no directory. */
static const char *directory(struct arena *a)
{
    const char *own = getenv("FP4GEN_CACHE");
    if (own)
        return *own ? own : NULL;
    const char *base = getenv("XDG_CACHE_HOME");
    if (base && *base == '/')
        return arena_printf(a, "%s/fp4gen", base);
    base = getenv("HOME");
    return base && *base == '/' ? arena_printf(a, "%s/.cache/fp4gen", base) : NULL;
}

static const char *file_of(struct arena *a, const char *dir, const char *key)
{
    return arena_printf(a, "%s/epilogue-%016llx", dir,
                        (unsigned long long)hash_of(key));
}

/* "MAGIC KEY-BYTES REPLY-BYTES HASH\n", the key, the reply; the hash is of both. */
static const char *read_entry(struct arena *a, const char *dir, const char *key,
                              size_t *reply_bytes)
{
    size_t bytes, key_bytes, head_bytes;
    const char *text = file_read(a, file_of(a, dir, key), &bytes);
    unsigned long long hash;
    int used = 0;
    if (!text ||
        sscanf(text, MAGIC " %zu %zu %llx%n", &key_bytes, reply_bytes, &hash, &used) !=
            3 ||
        text[used] != '\n')
        return NULL;
    head_bytes = (size_t)used + 1;
    size_t rest = bytes - head_bytes;
    if (key_bytes > rest || *reply_bytes != rest - key_bytes ||
        hash_bytes(text + head_bytes, rest) != hash || key_bytes != strlen(key) ||
        memcmp(text + head_bytes, key, key_bytes) != 0)
        return NULL;
    return text + head_bytes + key_bytes;
}

/* Each part of the path that is missing. */
static void make_directory(struct arena *a, const char *dir)
{
    char *path = arena_strdup(a, dir);
    for (char *s = path + 1; *s; s++)
        if (*s == '/') {
            *s = '\0';
            mkdir(path, 0777);
            *s = '/';
        }
    mkdir(path, 0777);
}

static void write_entry(const char *key, const char *reply, size_t reply_bytes)
{
    struct arena *a = arena_new();
    const char *dir = directory(a);
    if (dir) {
        struct buf body, file;
        buf_init(&body, a);
        buf_init(&file, a);
        buf_puts(&body, key);
        buf_add(&body, reply, reply_bytes);
        buf_printf(&file, MAGIC " %zu %zu %016llx\n", strlen(key), reply_bytes,
                   (unsigned long long)hash_bytes(body.data, body.bytes));
        buf_add(&file, body.data, body.bytes);
        make_directory(a, dir);
        file_write(file_of(a, dir, key), file.data, file.bytes);
    }
    arena_free(a);
}

/* A byte of the file for each key: a lock goes with its process, whatever ends it. */
static struct flock byte_of(const char *key, short type)
{
    return (struct flock){.l_type = type,
                          .l_whence = SEEK_SET,
                          .l_start = (off_t)(hash_of(key) & 0x3fffffff),
                          .l_len = 1};
}

int lower_cache_lock(const char *key)
{
    struct arena *a = arena_new();
    const char *dir = directory(a);
    int fd = -1;
    if (dir) {
        make_directory(a, dir);
        fd = open(arena_printf(a, "%s/epilogue.lock", dir), O_RDWR | O_CREAT, 0666);
    }
    arena_free(a);
    if (fd < 0)
        return -1;
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    struct flock l = byte_of(key, F_WRLCK);
    while (fcntl(fd, F_SETLKW, &l) != 0 && errno == EINTR)
        ;
    return fd; /* where locks do not work, work is done twice */
}

void lower_cache_unlock(int handle)
{
    if (handle >= 0)
        close(handle);
}

/* ---- both */

const char *lower_cache_find(struct arena *a, const char *key, size_t *reply_bytes)
{
    pthread_mutex_lock(&lock);
    const struct entry *e = find_entry(key);
    if (e)
        *reply_bytes = e->reply_bytes;
    pthread_mutex_unlock(&lock);
    if (e)
        return arena_strndup(a, e->reply, e->reply_bytes);
    const char *dir = directory(a);
    const char *reply = dir ? read_entry(a, dir, key, reply_bytes) : NULL;
    if (reply) {
        pthread_mutex_lock(&lock);
        add_entry(key, reply, *reply_bytes);
        pthread_mutex_unlock(&lock);
    }
    return reply;
}

void lower_cache_keep(const char *key, const char *reply, size_t reply_bytes)
{
    pthread_mutex_lock(&lock);
    add_entry(key, reply, reply_bytes);
    pthread_mutex_unlock(&lock);
    write_entry(key, reply, reply_bytes);
}
