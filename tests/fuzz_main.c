/* fuzz_main.c - mutates seeds, calls fuzz_one() until the time is over.
 *
 * No coverage feedback: it finds what a parser does with damaged input of its own kind
 * - cut off, doubled, with bytes and numbers changed - and costs no special compiler.
 */
#include "tests/fuzz.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_BYTES = 1 << 17, DEFAULT_SECONDS = 10, MUTATIONS = 6 };

static uint64_t state;

static size_t below(size_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return n ? (size_t)(state >> 33) % n : 0;
}

/* What parsers trip over: limits of numbers, brackets, ends of things. */
static const char *const words[] = {
    "0",
    "-1",
    "1",
    "65536",
    "4294967295",
    "4294967296",
    "18446744073709551616",
    "0x",
    "1e999",
    "nan",
    "\"",
    "\\",
    "/*",
    "//",
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    ";",
    ",",
    ".",
    "$",
    "%",
    "<",
    ">",
    "\n",
    "\r\n",
    "\t",
    "\xff",
    "\xc3",
    "=",
    ":",
    "*",
    "f32",
    ".b64",
    ".v4",
};

static size_t insert(char *text, size_t bytes, size_t at, const char *what,
                     size_t count)
{
    if (bytes + count > MAX_BYTES)
        return bytes;
    memmove(text + at + count, text + at, bytes - at);
    memcpy(text + at, what, count);
    return bytes + count;
}

static size_t cut(char *text, size_t bytes, size_t at, size_t count)
{
    count = count > bytes - at ? bytes - at : count;
    memmove(text + at, text + at + count, bytes - at - count);
    return bytes - count;
}

/* The line around `at`, its newline counted. */
static size_t line_at(const char *text, size_t bytes, size_t at, size_t *count)
{
    size_t first = at < bytes ? at : bytes, end = first;
    while (first > 0 && text[first - 1] != '\n')
        first--;
    while (end < bytes && text[end] != '\n')
        end++;
    *count = end + (end < bytes) - first;
    return first;
}

/* What leaves most texts well-formed: whole lines and single digits. */
static size_t mutate_gently(char *text, size_t bytes)
{
    char piece[256];
    size_t count, at = line_at(text, bytes, below(bytes + 1), &count);
    switch (below(4)) {
    case 0:
        return cut(text, bytes, at, count);
    case 1: /* a line also somewhere else */
    case 2: /* a line somewhere else */
        if (count > sizeof piece)
            return bytes;
        memcpy(piece, text + at, count);
        if (below(2))
            bytes = cut(text, bytes, at, count);
        size_t length, to = line_at(text, bytes, below(bytes + 1), &length);
        return insert(text, bytes, to, piece, count);
    default:
        for (size_t i = at; i < at + count; i++)
            if (text[i] >= '0' && text[i] <= '9' && below(4) == 0)
                text[i] = (char)('0' + below(10));
        return bytes;
    }
}

static size_t mutate(char *text, size_t bytes)
{
    char piece[256];
    size_t at = below(bytes + 1), count = 1 + below(sizeof piece);
    switch (below(8)) {
    case 0:
        return at; /* truncated */
    case 1:
        return cut(text, bytes, at, 1 + below(8));
    case 2:
        return cut(text, bytes, at, count);
    case 3: { /* a piece of itself, elsewhere */
        size_t from = below(bytes + 1);
        count = count > bytes - from ? bytes - from : count;
        memcpy(piece, text + from, count);
        return insert(text, bytes, at, piece, count);
    }
    case 4:
        if (at < bytes)
            text[at] = (char)below(256);
        return bytes;
    case 5:
        if (at < bytes)
            text[at] = (char)(text[at] ^ 1 << below(8));
        return bytes;
    case 6: { /* a word over what is there */
        const char *word = words[below(sizeof words / sizeof *words)];
        bytes = cut(text, bytes, at, strlen(word));
        return insert(text, bytes, at, word, strlen(word));
    }
    default: {
        const char *word = words[below(sizeof words / sizeof *words)];
        return insert(text, bytes, at, word, strlen(word));
    }
    }
}

/* Before the call, so that it is there after a crash. */
static void keep(const char *text, size_t bytes)
{
    char path[128];
    snprintf(path, sizeof path, "build/crash-%s", fuzz_name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(text, 1, bytes, f) != bytes || fclose(f) != 0) {
        perror(path);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? strtod(argv[1], NULL) : DEFAULT_SECONDS;
    state = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
    const struct fuzz_seed *seeds = fuzz_seeds();
    size_t seed_count = 0;
    for (; seeds[seed_count].text; seed_count++)
        fuzz_one(seeds[seed_count].text, seeds[seed_count].bytes);

    if (seed_count == 0)
        return 1;
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    static char scratch[MAX_BYTES + 1];
    long runs = 0;
    do {
        const struct fuzz_seed *seed = &seeds[below(seed_count)];
        size_t bytes = seed->bytes > MAX_BYTES ? MAX_BYTES : seed->bytes;
        memcpy(scratch, seed->text, bytes);
        bool gently = below(3) > 0;
        for (size_t i = 1 + below(gently ? 2 : MUTATIONS); i > 0; i--)
            bytes = gently ? mutate_gently(scratch, bytes) : mutate(scratch, bytes);
        keep(scratch, bytes);
        /* A copy of exactly its size, so that reading past the end is seen. */
        char *text = malloc(bytes + 1);
        if (!text)
            return 1;
        memcpy(text, scratch, bytes);
        text[bytes] = '\0';
        fuzz_one(text, bytes);
        free(text);
        runs++;
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((double)(now.tv_sec - start.tv_sec) < seconds);
    char path[128];
    snprintf(path, sizeof path, "build/crash-%s", fuzz_name);
    remove(path);
    printf("%s: %ld inputs in %.0f s, no crash\n", fuzz_name, runs, seconds);
    return 0;
}
