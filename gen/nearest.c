#include "gen/nearest.h"

#include <ctype.h>
#include <string.h>

enum { MOST_CHARS = 48 };

static int least(int a, int b, int c)
{
    int m = a < b ? a : b;
    return m < c ? m : c;
}

static int letter(const char *s, int i)
{
    return s[i] == '-' ? '_' : tolower((unsigned char)s[i]);
}

/* Letters to insert, delete, change or swap with their neighbour. */
static int distance(const char *a, const char *b)
{
    int m = (int)strlen(a), n = (int)strlen(b);
    if (m > MOST_CHARS || n > MOST_CHARS)
        return MOST_CHARS;
    int rows[3][MOST_CHARS + 1];
    for (int j = 0; j <= n; j++)
        rows[0][j] = j;
    for (int i = 1; i <= m; i++) {
        int *row = rows[i % 3], *above = rows[(i + 2) % 3], *two = rows[(i + 1) % 3];
        row[0] = i;
        for (int j = 1; j <= n; j++) {
            int x = letter(a, i - 1), y = letter(b, j - 1);
            row[j] = least(above[j] + 1, row[j - 1] + 1, above[j - 1] + (x != y));
            if (i > 1 && j > 1 && x == letter(b, j - 2) && y == letter(a, i - 2) &&
                two[j - 2] + 1 < row[j])
                row[j] = two[j - 2] + 1;
        }
    }
    return rows[m % 3][n];
}

const char *nearest_word(const char *typed, const char *const *words, int count)
{
    int chars = (int)strlen(typed), best = chars < 4 ? 1 : 1 + chars / 4;
    const char *found = NULL;
    for (int i = 0; i < count; i++) {
        int d = distance(typed, words[i]);
        if (d > best || (found && d == best) || d >= chars)
            continue;
        best = d;
        found = words[i];
    }
    return found;
}
