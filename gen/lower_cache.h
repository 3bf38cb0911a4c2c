/* lower_cache.h - replies by request: in memory for this process, on disk for others.
 *
 * The directory is FP4GEN_CACHE, else XDG_CACHE_HOME/fp4gen, else HOME/.cache/fp4gen;
 * FP4GEN_CACHE set to nothing leaves the disk alone.  A file is written beside its name
 * and renamed, so several processes may share a directory; what is damaged is taken for
 * absent and written again.  The cache never fails: at worst it finds nothing. */
#ifndef FP4GEN_LOWER_CACHE_H
#define FP4GEN_LOWER_CACHE_H

#include "core/base.h"

/* The reply, NUL-terminated, in `a`; NULL: not there. */
const char *lower_cache_find(struct arena *a, const char *key, size_t *reply_bytes);
/* Of several processes that find nothing, one makes the entry and the others wait for
 * it, or for the end of that process.  A handle for lower_cache_unlock(), after this
 * lower_cache_find() must be asked again. */
int lower_cache_lock(const char *key);
void lower_cache_unlock(int handle);
void lower_cache_keep(const char *key, const char *reply, size_t reply_bytes);

#endif
