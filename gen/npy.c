#include "gen/npy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/fp4.h"

#define MAGIC "\x93NUMPY"
#define MAX_HEADER_BYTES (1u << 20) /* ours are under 100 */
#define MAX_SIDE 0x7fffffffu

enum wanted { NUMBERS, BYTES, BOTH };

struct reader {
    FILE *file;
    const char *path;
    struct diags *d;
    enum wanted wanted;
    bool void_is_bf16;
    char *header;   /* the dictionary, NUL-terminated */
    const char *at; /* in it */
    bool fortran;
    char descr[16];
    size_t rows, cols;
};

static struct loc place(const struct reader *r)
{
    return (struct loc){.file = r->path};
}

static bool refuse(const struct reader *r, const char *what)
{
    diag_add(r->d, DIAG_NPY_HEADER, place(r), what);
    return false;
}

static bool read_bytes(const struct reader *r, void *out, size_t bytes)
{
    if (fread(out, 1, bytes, r->file) == bytes)
        return true;
    if (ferror(r->file))
        diag_add(r->d, DIAG_NPY_OPEN, place(r), strerror(errno ? errno : EIO));
    else
        diag_add(r->d, DIAG_NPY_TRUNCATED, place(r), "header");
    return false;
}

/* Magic, version, length: everything before the dictionary. */
static bool read_preamble(struct reader *r, size_t *header_bytes)
{
    unsigned char start[12];
    size_t got = fread(start, 1, 8, r->file);
    if (got < 8 || memcmp(start, MAGIC, 6) != 0) {
        if (got < 8 && got > 0 && memcmp(start, MAGIC, got < 6 ? got : 6) == 0)
            diag_add(r->d, DIAG_NPY_TRUNCATED, place(r), "header");
        else
            diag_add(r->d, DIAG_NPY_MAGIC, place(r));
        return false;
    }
    const int major = start[6];
    if (major < 1 || major > 3 || start[7] != 0) {
        diag_add(r->d, DIAG_NPY_VERSION, place(r), major, start[7]);
        return false;
    }
    size_t length_bytes = major == 1 ? 2 : 4; /* little endian */
    if (!read_bytes(r, start + 8, length_bytes))
        return false;
    *header_bytes = 0;
    for (size_t i = 0; i < length_bytes; i++)
        *header_bytes |= (size_t)start[8 + i] << 8 * i;
    if (*header_bytes > MAX_HEADER_BYTES)
        return refuse(r, "it is longer than 1 MiB");
    return true;
}

/* ---- The dictionary: a Python literal with three known keys. */

static void skip_space(struct reader *r)
{
    r->at += strspn(r->at, " \t\r\n");
}

static bool take(struct reader *r, char c)
{
    skip_space(r);
    if (*r->at != c)
        return false;
    r->at++;
    return true;
}

static bool take_word(struct reader *r, const char *word)
{
    skip_space(r);
    size_t chars = strlen(word);
    if (strncmp(r->at, word, chars) != 0)
        return false;
    r->at += chars;
    return true;
}

/* A string in either quotes, without escapes. */
static bool take_string(struct reader *r, char *out, size_t bytes)
{
    skip_space(r);
    const char quote = *r->at;
    if (quote != '\'' && quote != '"')
        return false;
    const char *end = strchr(r->at + 1, quote);
    if (!end || (size_t)(end - r->at) > bytes)
        return false;
    size_t chars = (size_t)(end - r->at) - 1;
    memcpy(out, r->at + 1, chars);
    out[chars] = '\0';
    r->at = end + 1;
    return true;
}

static bool take_size(struct reader *r, size_t *out)
{
    skip_space(r);
    size_t digits = strspn(r->at, "0123456789"), n = 0;
    if (digits == 0)
        return refuse(r, "its shape is no tuple of numbers");
    for (size_t i = 0; i < digits; i++) {
        n = n * 10 + (size_t)(r->at[i] - '0');
        if (n > MAX_SIDE) {
            diag_add(r->d, DIAG_NPY_BIG, place(r), (int)digits, r->at, MAX_SIDE);
            return false;
        }
    }
    r->at += digits;
    *out = n;
    return true;
}

static bool take_shape(struct reader *r)
{
    size_t sizes[2] = {0, 0}, size;
    int rank = 0;
    if (!take(r, '('))
        return refuse(r, "its shape is no tuple of numbers");
    while (!take(r, ')')) {
        if (!take_size(r, &size))
            return false;
        if (rank < 2)
            sizes[rank] = size;
        rank++;
        if (!take(r, ',') && *r->at != ')')
            return refuse(r, "its shape is no tuple of numbers");
    }
    if (rank != 2) {
        diag_add(r->d, DIAG_NPY_RANK, place(r), rank, rank == 1 ? "" : "s");
        return false;
    }
    r->rows = sizes[0];
    r->cols = sizes[1];
    return true;
}

static bool read_dictionary(struct reader *r)
{
    bool has_descr = false, has_order = false, has_shape = false;
    if (!take(r, '{'))
        return refuse(r, "it is no dictionary");
    while (!take(r, '}')) {
        char key[16];
        if (!take_string(r, key, sizeof key) || !take(r, ':'))
            return refuse(r, "it is no dictionary of descr, fortran_order and shape");
        if (strcmp(key, "descr") == 0 && !has_descr) {
            has_descr = true;
            if (take(r, '['))
                return refuse(r, "its elements are records, not numbers");
            if (!take_string(r, r->descr, sizeof r->descr))
                return refuse(r, "its descr is no short string");
        } else if (strcmp(key, "fortran_order") == 0 && !has_order) {
            has_order = true;
            r->fortran = take_word(r, "True");
            if (!r->fortran && !take_word(r, "False"))
                return refuse(r, "its fortran_order is neither True nor False");
        } else if (strcmp(key, "shape") == 0 && !has_shape) {
            has_shape = true;
            if (!take_shape(r))
                return false;
        } else {
            return refuse(r, "it has a key twice, or one that is not known");
        }
        if (!take(r, ',') && *r->at != '}')
            return refuse(r, "it is no dictionary of descr, fortran_order and shape");
    }
    skip_space(r);
    if (*r->at || !has_descr || !has_order || !has_shape)
        return refuse(r, "it is no dictionary of descr, fortran_order and shape");
    return true;
}

static bool read_type(const struct reader *r, enum npy_type *out)
{
    static const char *const allowed[] = {
        [NUMBERS] = "'<f4', '<f2' and bf16 as '|V2' are",
        [BYTES] = "bytes, '|u1', are",
        [BOTH] = "'<f4', '<f2', bf16 as '|V2', and packed codes as '|u1' are",
    };
    const char *t = r->descr;
    if (t[0] == '>') {
        diag_add(r->d, DIAG_NPY_ENDIAN, place(r), t);
        return false;
    }
    bool is_void = strcmp(t, "|V2") == 0 || strcmp(t, "<V2") == 0;
    if (is_void && r->wanted != BYTES && !r->void_is_bf16) {
        diag_add(r->d, DIAG_NPY_VOID, place(r), t);
        return false;
    }
    bool is_known = true;
    if (strcmp(t, "<f4") == 0)
        *out = NPY_F32;
    else if (strcmp(t, "<f2") == 0)
        *out = NPY_F16;
    else if (strcmp(t, "|u1") == 0 || strcmp(t, "<u1") == 0)
        *out = NPY_U8;
    else if (is_void)
        *out = NPY_BF16;
    else
        is_known = false;
    if (is_known && (r->wanted == BOTH || (r->wanted == BYTES) == (*out == NPY_U8)))
        return true;
    diag_add(r->d, DIAG_NPY_TYPE, place(r), t, allowed[r->wanted]);
    return false;
}

static size_t elem_bytes(enum npy_type type)
{
    return type == NPY_F32 ? 4 : type == NPY_U8 ? 1 : 2;
}

/* Little endian bytes, whatever the host's order. */
static float decode(const unsigned char *p, enum npy_type type)
{
    uint16_t half = (uint16_t)(p[0] | p[1] << 8);
    if (type == NPY_BF16)
        return bf16_decode(half);
    if (type == NPY_F16)
        return f16_decode(half);
    uint32_t bits = half | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The size is asked before memory for it: a header may claim anything. */
static bool check_bytes(const struct reader *r, uint64_t want)
{
    struct stat st;
    long at = ftell(r->file);
    if (fstat(fileno(r->file), &st) != 0 || !S_ISREG(st.st_mode) || at < 0)
        return true; /* a pipe: what is missing shows when it is read */
    uint64_t has = (uint64_t)st.st_size - (uint64_t)at;
    if (has == want)
        return true;
    diag_add(r->d, DIAG_NPY_BYTES, place(r), r->rows, r->cols, (unsigned long long)want,
             (unsigned long long)has);
    return false;
}

static bool read_u8(const struct reader *r, uint64_t elems, struct npy *out)
{
    out->bytes = elems < SIZE_MAX ? malloc(elems + 1) : NULL;
    if (!out->bytes) {
        diag_add(r->d, DIAG_NPY_MEMORY, place(r), r->rows, r->cols);
        return false;
    }
    if (fread(out->bytes, 1, elems, r->file) == elems)
        return true;
    if (ferror(r->file))
        diag_add(r->d, DIAG_NPY_OPEN, place(r), strerror(errno ? errno : EIO));
    else
        diag_add(r->d, DIAG_NPY_TRUNCATED, place(r), "data");
    return false;
}

static bool read_data(const struct reader *r, struct npy *out)
{
    const size_t unit = elem_bytes(out->type);
    const uint64_t elems = (uint64_t)r->rows * r->cols; /* below 2^62 */
    if (!check_bytes(r, elems * unit))
        return false;
    if (out->type == NPY_U8)
        return read_u8(r, elems, out);
    out->data =
        elems <= SIZE_MAX / 8 ? malloc(elems ? elems * sizeof(float) : 1) : NULL;
    if (!out->data) {
        diag_add(r->d, DIAG_NPY_MEMORY, place(r), r->rows, r->cols);
        return false;
    }
    unsigned char chunk[1 << 14];
    for (uint64_t done = 0; done < elems;) {
        uint64_t left = elems - done;
        size_t now = left < sizeof chunk / unit ? (size_t)left : sizeof chunk / unit;
        if (fread(chunk, unit, now, r->file) != now) {
            diag_add(r->d, DIAG_NPY_TRUNCATED, place(r), "data");
            return false;
        }
        for (size_t i = 0; i < now; i++)
            out->data[done + i] = decode(chunk + i * unit, out->type);
        done += now;
    }
    return true;
}

static bool read_file(struct reader *r, struct npy *out)
{
    size_t header_bytes;
    if (!read_preamble(r, &header_bytes))
        return false;
    r->header = malloc(header_bytes + 1);
    if (!r->header)
        return refuse(r, "there is no memory for it");
    if (!read_bytes(r, r->header, header_bytes))
        return false;
    r->header[header_bytes] = '\0';
    r->at = r->header;
    if (strlen(r->header) != header_bytes)
        return refuse(r, "it has a NUL inside");
    if (!read_dictionary(r) || !read_type(r, &out->type))
        return false;
    if (r->fortran && r->rows > 1 && r->cols > 1) { /* else both orders are the same */
        diag_add(r->d, DIAG_NPY_FORTRAN, place(r));
        return false;
    }
    out->rows = r->rows;
    out->cols = r->cols;
    return read_data(r, out);
}

static bool read_path(struct reader r, struct npy *out)
{
    struct stat st;
    r.file = fopen(r.path, "rb");
    *out = (struct npy){0};
    if (r.file && fstat(fileno(r.file), &st) == 0 && S_ISDIR(st.st_mode)) {
        fclose(r.file);
        r.file = NULL;
        errno = EISDIR;
    }
    if (!r.file) {
        diag_add(r.d, DIAG_NPY_OPEN, place(&r), strerror(errno));
        return false;
    }
    bool ok = read_file(&r, out);
    free(r.header);
    fclose(r.file);
    if (!ok)
        npy_free(out);
    return ok;
}

bool npy_read(const char *path, bool void_is_bf16, struct npy *out, struct diags *d)
{
    return read_path(
        (struct reader){
            .path = path, .d = d, .wanted = NUMBERS, .void_is_bf16 = void_is_bf16},
        out);
}

bool npy_read_u8(const char *path, struct npy *out, struct diags *d)
{
    return read_path((struct reader){.path = path, .d = d, .wanted = BYTES}, out);
}

bool npy_read_any(const char *path, bool void_is_bf16, struct npy *out, struct diags *d)
{
    return read_path(
        (struct reader){
            .path = path, .d = d, .wanted = BOTH, .void_is_bf16 = void_is_bf16},
        out);
}

void npy_free(struct npy *n)
{
    free(n->data);
    free(n->bytes);
    *n = (struct npy){0};
}

bool npy_write(const char *path, enum npy_type type, const void *data, size_t rows,
               size_t cols, size_t stride_bytes, struct diags *d)
{
    static const char *const descrs[] = {
        [NPY_F32] = "<f4", [NPY_F16] = "<f2", [NPY_U8] = "|u1", [NPY_BF16] = "|V2"};
    const size_t unit = elem_bytes(type);
    /* As numpy does: the data starts at a multiple of 64. */
    char header[128 + 1];
    memset(header, ' ', sizeof header);
    memcpy(header, MAGIC "\x01\x00\x76\x00", 10); /* 0x76 = 118 = 128 - 10 */
    int chars =
        snprintf(header + 10, sizeof header - 10,
                 "{'descr': '%s', 'fortran_order': False, 'shape': (%zu, %zu), }",
                 descrs[type], rows, cols);
    header[10 + chars] = ' ';
    header[127] = '\n';
    size_t bytes = 128 + rows * cols * unit;
    unsigned char *file = malloc(bytes);
    bool ok = file != NULL;
    errno = ok ? 0 : ENOMEM;
    if (ok) {
        memcpy(file, header, 128);
        for (size_t row = 0; row < rows; row++) {
            const unsigned char *from =
                (const unsigned char *)data + row * stride_bytes;
            unsigned char *to = file + 128 + row * cols * unit;
            for (size_t i = 0; i < cols; i++) {
                uint32_t bits = 0; /* of the host; the file is little endian */
                uint16_t half;
                if (unit == 4) {
                    memcpy(&bits, from + 4 * i, 4);
                } else if (unit == 2) {
                    memcpy(&half, from + 2 * i, 2);
                    bits = half;
                } else {
                    bits = from[i];
                }
                for (size_t b = 0; b < unit; b++)
                    to[i * unit + b] = (unsigned char)(bits >> 8 * b);
            }
        }
        ok = file_write(path, file, bytes);
    }
    int error = errno;
    free(file);
    if (!ok)
        diag_add(d, DIAG_NPY_WRITE, (struct loc){.file = path}, strerror(error));
    return ok;
}
