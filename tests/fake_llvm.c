/* fake_llvm.c - stands in for libfp4gen-llvm.so: answers without LLVM, or dies as it
 * would.  FAKE_LLVM says how; FAKE_LLVM_LOG names a file that gets a byte for each
 * request. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base.h"
#include "gen/llvm/plugin.h"

EXPORTED lower_entry fp4gen_lower;

static void log_request(void)
{
    const char *path = getenv("FAKE_LLVM_LOG");
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND, 0666) : -1;
    if (fd >= 0 && write(fd, "x", 1) != 1)
        abort();
    if (fd >= 0)
        close(fd);
}

static char *copy(const char *text, size_t *bytes)
{
    *bytes = strlen(text);
    char *p = malloc(*bytes + 1);
    return p ? memcpy(p, text, *bytes + 1) : NULL;
}

char *fp4gen_lower(const char *request, size_t *reply_bytes, char **error,
                   void (*fatal)(const char *text))
{
    const char *how = getenv("FAKE_LLVM");
    size_t unused;
    (void)request;
    log_request();
    how = how ? how : "";
    if (strcmp(how, "refuse") == 0) {
        *error = copy("it does not please", &unused);
        return NULL;
    }
    if (strcmp(how, "abort") == 0)
        abort();
    if (strcmp(how, "fatal") == 0) {
        fatal("Cannot select: t7: f32 = fexp t3");
        abort();
    }
    if (strcmp(how, "exit") == 0)
        _exit(3);
    if (strcmp(how, "garbage") == 0)
        return copy("block of stone\n", reply_bytes);
    while (strcmp(how, "hang") == 0)
        pause();
    if (strcmp(how, "slow") == 0) {
        struct timespec t = {1, 0};
        nanosleep(&t, NULL);
    }
    return copy("hoists 32\n"
                "block tile insns 1 rare 0 words 1 regs 0 body 16\n  mov ep_h0, m;\n"
                "block chunk insns 1 rare 0 words 1 regs 0 body 16\n  mov o0_w0, m;\n"
                "block tail insns 2 rare 0 words 2 regs 0 body 16\n  mov o0_w0, n;\n",
                reply_bytes);
}
