#include "gen/lower_worker.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "gen/llvm/plugin.h"

#define LIBRARY "libfp4gen-llvm.so"

enum { LIMIT_S = 60, MOST_BYTES = 64 << 20 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pid_t worker, owner; /* owner: a forked copy of this process starts its own */
static int channel = -1;

/* ---- messages: a letter, a size, the text */

struct head {
    char kind; /* r request, or reply; e refused; f LLVM's last words; a absent */
    char unused[7];
    uint64_t bytes;
};

static bool send_all(int fd, const void *data, size_t bytes)
{
    const char *p = data;
    while (bytes > 0) {
        ssize_t sent = send(fd, p, bytes, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return false;
        p += sent;
        bytes -= (size_t)sent;
    }
    return true;
}

/* FP4GEN_LLVM_SECONDS, for machines and tests that LIMIT_S does not suit. */
static int limit_s(void)
{
    const char *own = getenv("FP4GEN_LLVM_SECONDS");
    long seconds = own ? strtol(own, NULL, 10) : 0;
    return seconds > 0 && seconds < 1000000 ? (int)seconds : LIMIT_S;
}

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* `until_ms`: of now_ms(), or FOREVER. */
#define FOREVER INT64_MAX
static bool receive_all(int fd, void *data, size_t bytes, int64_t until_ms)
{
    char *p = data;
    while (bytes > 0) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        int64_t left_ms = until_ms == FOREVER ? 0 : until_ms - now_ms();
        int count = until_ms == FOREVER ? 1
                    : left_ms <= 0      ? 0
                                        : poll(&ready, 1, (int)left_ms);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return false;
        ssize_t got = recv(fd, p, bytes, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        p += got;
        bytes -= (size_t)got;
    }
    return true;
}

static bool send_message(int fd, char kind, const char *text, size_t bytes)
{
    struct head h = {.kind = kind, .bytes = bytes};
    return send_all(fd, &h, sizeof h) && send_all(fd, text, bytes);
}

/* NULL: the other side is gone. */
static char *receive_message(struct arena *a, int fd, int64_t until_ms, struct head *h)
{
    if (!receive_all(fd, h, sizeof *h, until_ms) || h->bytes > MOST_BYTES)
        return NULL;
    char *text = arena_alloc(a, (size_t)h->bytes + 1);
    return receive_all(fd, text, (size_t)h->bytes, until_ms) ? text : NULL;
}

/* ---- the worker's side */

static int worker_fd;

static void send_last_words(const char *text)
{
    send_message(worker_fd, 'f', text, strlen(text));
}

static lower_entry *open_library(const char *path, const char **error)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, LOWER_ENTRY) : NULL;
    lower_entry *entry = NULL;
    if (symbol)
        memcpy(&entry, &symbol, sizeof entry); /* ISO C has no such cast */
    else
        *error = dlerror();
    return entry;
}

/* Whoever asked is gone: LLVM may be deep in its work, or hang, and would not see it.
 * (A signal at the parent's death would come when the thread ends that has started the
 * worker.) */
static void *watch(void *unused)
{
    (void)unused;
    struct pollfd other_side = {.fd = worker_fd,
                                .events = 0}; /* POLLHUP comes anyway */
    while (poll(&other_side, 1, -1) <= 0)
        continue;
    _exit(0);
}

static _Noreturn void serve(const char *path)
{
    pthread_t watcher;
    pthread_create(&watcher, NULL, watch, NULL);
    const char *error = NULL;
    lower_entry *entry = open_library(path, &error);
    for (;;) {
        struct arena *a = arena_new();
        struct head h;
        const char *request = receive_message(a, worker_fd, FOREVER, &h);
        if (!request)
            _exit(0);
        bool sent;
        if (!entry) {
            const char *text = error ? error : "no reason given";
            sent = send_message(worker_fd, 'a', text, strlen(text));
        } else {
            size_t bytes = 0;
            char *refusal = NULL;
            char *reply = entry(request, &bytes, &refusal, send_last_words);
            if (reply)
                sent = send_message(worker_fd, 'r', reply, bytes);
            else
                sent = send_message(worker_fd, 'e', refusal ? refusal : "",
                                    refusal ? strlen(refusal) : 0);
            free(reply);
            free(refusal);
        }
        arena_free(a);
        if (!sent)
            _exit(0);
    }
}

/* What LLVM prints when it dies is in nobody's interest; its last words come by
 * message.
 */
static void detach_streams(void)
{
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; null >= 0 && fd < 3; fd++)
        dup2(null, fd);
    static const int fatal[] = {SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGINT};
    for (size_t i = 0; i < COUNT_OF(fatal); i++)
        signal(fatal[i], fatal[i] == SIGINT ? SIG_IGN : SIG_DFL);
}

/* ---- this side */

const char *worker_library(struct arena *a)
{
    const char *own = getenv("FP4GEN_LLVM_LIB");
    if (own && *own)
        return own;
    static const char *const folders[] = {"../lib", "../lib/fp4gen"};
    char program[4096];
    ssize_t chars = readlink("/proc/self/exe", program, sizeof program - 1);
    const char *path = LIBRARY;
    for (size_t i = 0; chars > 0 && i < COUNT_OF(folders); i++) {
        program[chars] = '\0';
        const char *slash = strrchr(program, '/');
        int folder_chars = slash ? (int)(slash - program) : 0;
        path = arena_printf(a, "%.*s/%s/" LIBRARY, folder_chars, program, folders[i]);
        if (access(path, R_OK) == 0)
            return path;
    }
    return path;
}

static bool start(const char *path)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
        return false;
    for (int i = 0; i < 2; i++)
        fcntl(ends[i], F_SETFD, FD_CLOEXEC);
    fflush(NULL);
    pid_t child = fork();
    if (child < 0) {
        close(ends[0]);
        close(ends[1]);
        return false;
    }
    if (child == 0) {
        close(ends[0]);
        if (channel >= 0)
            close(channel);
        worker_fd = ends[1];
        detach_streams();
        serve(path);
    }
    close(ends[1]);
    channel = ends[0];
    worker = child;
    owner = getpid();
    return true;
}

/* Ends the worker and tells how it ended by itself, if it did. */
static const char *stop(struct arena *a)
{
    int status = 0;
    close(channel);
    channel = -1;
    /* One that is dying is left to it, so that its own end is seen. */
    struct timespec nap = {0, 10000000};
    pid_t ended = 0;
    for (int i = 0; i < 100 && ended == 0; i++) {
        ended = waitpid(worker, &status, WNOHANG);
        if (ended == 0)
            nanosleep(&nap, NULL);
    }
    if (ended == 0) {
        kill(worker, SIGKILL);
        waitpid(worker, &status, 0);
        return "it would not end";
    }
    if (ended == worker && WIFSIGNALED(status))
        return arena_printf(a, "it ended with signal %d (%s)", WTERMSIG(status),
                            strsignal(WTERMSIG(status)));
    if (ended == worker && WIFEXITED(status))
        return arena_printf(a, "it ended with status %d", WEXITSTATUS(status));
    return "it ended";
}

static enum worker_outcome ask(struct arena *a, const char *request, const char **reply,
                               size_t *reply_bytes)
{
    const char *path = worker_library(a);
    if (channel >= 0 && owner != getpid()) {
        close(channel);
        channel = -1;
    }
    if (channel < 0 && !start(path)) {
        *reply = arena_printf(a, "no process can be started: %s", strerror(errno));
        return WORKER_REFUSED;
    }
    struct head h;
    char *text = NULL;
    const char *last_words = NULL;
    const int seconds = limit_s();
    const int64_t until_ms = now_ms() + (int64_t)seconds * 1000;
    if (send_message(channel, 'r', request, strlen(request)))
        while ((text = receive_message(a, channel, until_ms, &h)) != NULL &&
               h.kind == 'f')
            last_words = text;
    if (!text) {
        const bool is_late = now_ms() >= until_ms;
        const char *end = stop(a);
        if (is_late)
            end = arena_printf(
                a, "no answer within %d s; FP4GEN_LLVM_SECONDS allows more", seconds);
        *reply = last_words ? last_words : end;
        return WORKER_REFUSED;
    }
    *reply = text;
    *reply_bytes = (size_t)h.bytes;
    if (h.kind == 'a')
        stop(a); /* another try may find the library */
    return h.kind == 'r' ? WORKER_DONE : h.kind == 'a' ? WORKER_ABSENT : WORKER_REFUSED;
}

enum worker_outcome worker_ask(struct arena *a, const char *request, const char **reply,
                               size_t *reply_bytes)
{
    pthread_mutex_lock(&lock);
    enum worker_outcome outcome = ask(a, request, reply, reply_bytes);
    pthread_mutex_unlock(&lock);
    return outcome;
}
