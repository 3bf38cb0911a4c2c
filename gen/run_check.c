#include "gen/run_check.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "gen/npy.h"
#include "gen/run_data.h"

#define ROWS_AT_ONCE 16
#define MAX_THREADS 64

static size_t bits_of(const struct d_matrix *d)
{
    return d->bits ? d->bits : d->is_f32 ? 32 : 16;
}

static size_t row_bytes_of(const struct d_matrix *d)
{
    return (d->n * bits_of(d) + 7) / 8;
}

static const uint8_t *element_bytes(const struct d_matrix *d, size_t row, size_t col)
{
    return d->bytes + GUARD_BYTES + row * d->ld_bytes + col * (d->is_f32 ? 4 : 2);
}

void d_poison(struct d_matrix *d, uint8_t *bytes, uint8_t poison)
{
    d->bytes = bytes;
    d->poison = poison;
    memset(bytes, GUARD_BYTE, d->m * d->ld_bytes + 2 * GUARD_BYTES);
    for (size_t row = 0; row < d->m; row++)
        memset(bytes + GUARD_BYTES + row * d->ld_bytes, poison, row_bytes_of(d));
}

double d_element(const struct d_matrix *d, size_t row, size_t col)
{
    if (d->is_f32) {
        float x;
        memcpy(&x, element_bytes(d, row, col), sizeof x);
        return x;
    }
    uint16_t bits;
    memcpy(&bits, element_bytes(d, row, col), sizeof bits);
    return ref_bf16(bits);
}

static bool is_poison(const struct d_matrix *d, size_t row, size_t col)
{
    const uint8_t *at = element_bytes(d, row, col);
    for (size_t i = 0; i < bits_of(d) / 8; i++)
        if (at[i] != d->poison)
            return false;
    return true;
}

struct d_touched d_check_touched(const struct d_matrix *d)
{
    return d_check_touched_twice(d, d);
}

struct d_touched d_check_touched_twice(const struct d_matrix *d,
                                       const struct d_matrix *again)
{
    struct d_touched t = {0};
    const size_t unit = bits_of(d) / 8, row_bytes = row_bytes_of(d);
    const size_t shown = unit >= 2 ? d->n : 0; /* columns whose poison shows */
    for (size_t row = 0; row < d->m; row++) {
        for (size_t col = 0; col < shown; col++)
            if (is_poison(d, row, col) && is_poison(again, row, col) && !t.unwritten++)
                t.first_unwritten = (struct d_place){row, col};
        const uint8_t *start = d->bytes + GUARD_BYTES + row * d->ld_bytes;
        for (size_t i = row_bytes; i < d->ld_bytes; i++)
            if (start[i] != GUARD_BYTE && !t.strayed++)
                t.first_strayed = (int64_t)(row * d->ld_bytes + i);
    }
    const size_t bytes = d->m * d->ld_bytes;
    for (size_t i = 0; i < GUARD_BYTES; i++) {
        if (d->bytes[i] != GUARD_BYTE && !t.strayed++)
            t.first_strayed = (int64_t)i - GUARD_BYTES;
        if (d->bytes[GUARD_BYTES + bytes + i] != GUARD_BYTE && !t.strayed++)
            t.first_strayed = (int64_t)(bytes + i);
    }
    return t;
}

static void take_element(struct d_compared *c, const struct d_matrix *d, size_t row,
                         size_t col, struct ref_dot want, size_t k)
{
    double got = d_element(d, row, col);
    double error = ref_error(got, want, k, d->is_f32);
    c->elements++;
    c->wrong += error > 1;
    if (error > c->worst || c->elements == 1) {
        c->worst = error;
        c->at = (struct d_place){row, col};
        c->got = isnan(got) ? NAN : got; /* without its sign */
        c->want = isnan(want.value) ? NAN : want.value;
    }
}

static void merge(struct d_compared *into, const struct d_compared *part)
{
    bool worse = part->elements && (part->worst > into->worst || !into->elements);
    uint64_t elements = into->elements + part->elements;
    uint64_t wrong = into->wrong + part->wrong;
    if (worse)
        *into = *part;
    into->elements = elements;
    into->wrong = wrong;
}

static bool compare_box(const struct d_matrix *d, const struct ref_gemm *g, size_t row0,
                        size_t row1, size_t col0, size_t col1, struct ref_dot *dots,
                        struct d_compared *out)
{
    if (!ref_gemm(g, row0, row1, col0, col1, dots))
        return false;
    for (size_t row = row0; row < row1; row++)
        for (size_t col = col0; col < col1; col++)
            take_element(out, d, row, col, *dots++, g->k);
    return true;
}

/* Rows are handed out to threads in strips. */
struct shared {
    const struct d_matrix *d;
    const struct ref_gemm *g;
    pthread_mutex_t lock;
    size_t next_row;
    bool failed;
    struct d_compared sum;
};

static size_t next_strip(struct shared *s)
{
    pthread_mutex_lock(&s->lock);
    size_t row = s->failed ? s->d->m : s->next_row;
    s->next_row = row + ROWS_AT_ONCE;
    pthread_mutex_unlock(&s->lock);
    return row;
}

static void *compare_strips(void *arg)
{
    struct shared *s = arg;
    struct d_compared mine = {0};
    struct ref_dot *dots = malloc((ROWS_AT_ONCE * s->d->n + 1) * sizeof *dots);
    bool ok = dots != NULL;
    for (size_t row; ok && (row = next_strip(s)) < s->d->m;) {
        size_t end = row + ROWS_AT_ONCE < s->d->m ? row + ROWS_AT_ONCE : s->d->m;
        ok = compare_box(s->d, s->g, row, end, 0, s->d->n, dots, &mine);
    }
    free(dots);
    pthread_mutex_lock(&s->lock);
    s->failed |= !ok;
    merge(&s->sum, &mine);
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

bool d_compare_all(const struct d_matrix *d, const struct ref_gemm *g, int threads,
                   struct d_compared *out)
{
    struct shared s = {.d = d, .g = g, .lock = PTHREAD_MUTEX_INITIALIZER};
    pthread_t others[MAX_THREADS];
    int started = 0;
    while (started + 1 < threads && started < MAX_THREADS &&
           pthread_create(&others[started], NULL, compare_strips, &s) == 0)
        started++;
    compare_strips(&s);
    for (int i = 0; i < started; i++)
        pthread_join(others[i], NULL);
    *out = s.sum;
    return !s.failed;
}

/* The rows of `side` that are edges, in runs: 0, 127..128, 255..256, ...  Returns the
 * end of the run that begins at or behind `from`, and its begin; false at the end. */
static bool next_edge(size_t side, size_t tile, size_t from, size_t *begin, size_t *end)
{
    if (from >= side)
        return false;
    if (from == 0) {
        *begin = 0;
        *end = 1;
        return true;
    }
    size_t last = (from + tile - 1) / tile * tile - 1; /* last row of a tile */
    if (last < from)
        last += tile;
    *begin = last < side ? last : side - 1;
    *end = *begin + 2 < side ? *begin + 2 : side;
    return true;
}

bool d_compare_part(const struct d_matrix *d, const struct ref_gemm *g, size_t tile_m,
                    size_t tile_n, size_t count, uint64_t seed, struct d_compared *out)
{
    size_t longest = d->m > d->n ? d->m : d->n, begin, end;
    struct ref_dot *dots = malloc((2 * longest + 1) * sizeof *dots);
    bool ok = dots != NULL;
    *out = (struct d_compared){0};
    for (size_t at = 0; ok && next_edge(d->m, tile_m, at, &begin, &end); at = end)
        ok = compare_box(d, g, begin, end, 0, d->n, dots, out);
    for (size_t at = 0; ok && next_edge(d->n, tile_n, at, &begin, &end); at = end)
        ok = compare_box(d, g, 0, d->m, begin, end, dots, out);
    for (size_t i = 0; ok && i < count && d->m && d->n; i++) {
        size_t row = (size_t)(random_word(seed, 16, 2 * i) % d->m);
        size_t col = (size_t)(random_word(seed, 16, 2 * i + 1) % d->n);
        take_element(out, d, row, col, ref_gemm_element(g, row, col), g->k);
    }
    free(dots);
    return ok;
}

struct d_loss d_measure_loss(const struct d_matrix *d, const struct npy *a,
                             const struct npy *b, double alpha, size_t count,
                             uint64_t seed)
{
    struct d_loss loss = {0};
    double difference = 0, product = 0;
    const bool all = count == 0;
    const uint64_t elements = all ? (uint64_t)d->m * d->n : count;
    for (uint64_t i = 0; i < elements; i++) {
        size_t row = (size_t)(all ? i / d->n : random_word(seed, 17, 2 * i) % d->m);
        size_t col = (size_t)(all ? i % d->n : random_word(seed, 17, 2 * i + 1) % d->n);
        const float *x = a->data + row * a->cols, *y = b->data + col * b->cols;
        double sum = 0;
        for (size_t k = 0; k < a->cols; k++)
            sum += (double)x[k] * y[k];
        double off = fabs(d_element(d, row, col) - alpha * sum);
        difference += off * off;
        product += alpha * sum * (alpha * sum);
        if (!(off <= loss.worst)) /* a NaN counts as worse */
            loss.worst = off;
    }
    loss.relative = product > 0 ? sqrt(difference / product) : sqrt(difference);
    loss.elements = elements;
    return loss;
}
