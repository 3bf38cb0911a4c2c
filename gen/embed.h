/* embed.h - the configs and templates that are built into the program.
 *
 * gen/embed.sh turns the files into a C table when the program is built. */
#ifndef FP4GEN_EMBED_H
#define FP4GEN_EMBED_H

#include <stddef.h>

struct embedded {
    const char *path; /* "templates/gemm_tcgen05.ptxt", as in the source tree */
    const unsigned char *data; /* NUL-terminated */
    size_t bytes;              /* without the NUL */
};

extern const struct embedded embedded_files[];
extern const int embedded_count;

const struct embedded *embedded_find(const char *path); /* NULL: no such file */

#endif
