#include "gen/seen.h"

#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

size_t seen_add(struct seen *s, const uint64_t *keys, size_t count)
{
    size_t before = s->count;
    if (before + count > s->room) {
        s->room = 2 * (before + count);
        s->at = realloc(s->at, s->room * sizeof *s->at);
        if (!s->at)
            abort();
    }
    for (size_t i = 0; i < count; i++)
        if (!before || !bsearch(&keys[i], s->at, before, sizeof *s->at, compare))
            s->at[s->count++] = keys[i];
    if (s->count == before)
        return 0;
    qsort(s->at, s->count, sizeof *s->at, compare);
    size_t unique = 0; /* what was given twice */
    for (size_t i = 0; i < s->count; i++)
        if (unique == 0 || s->at[unique - 1] != s->at[i])
            s->at[unique++] = s->at[i];
    s->count = unique;
    return unique - before;
}

void seen_clear(struct seen *s)
{
    free(s->at);
    *s = (struct seen){0};
}
