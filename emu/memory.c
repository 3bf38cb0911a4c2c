#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, MAP_NORESERVE, madvise */

#include "emu/memory.h"

#include <assert.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* In a build with AddressSanitizer the gaps are poisoned to the byte, so that a mistake
 * of the emulator itself is caught where it happens. */
#if defined(__SANITIZE_ADDRESS__)
#define MEMORY_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MEMORY_ASAN 1
#endif
#endif
#ifdef MEMORY_ASAN
#include <sanitizer/asan_interface.h>
#define HIDE(p, bytes) __asan_poison_memory_region((p), (bytes))
#define SHOW(p, bytes) __asan_unpoison_memory_region((p), (bytes))
#else
#define HIDE(p, bytes) ((void)(p), (void)(bytes))
#define SHOW(p, bytes) ((void)(p), (void)(bytes))
#endif

#define PAGE_BYTES 4096u
#define LARGE_BYTES (UINT64_C(2) << 20) /* aligned to this from this size on */
#define WINDOW_MAX_BYTES (UINT64_C(1) << 40)
#define WINDOW_MIN_BYTES (UINT64_C(1) << 28)
#define HIDE_BYTES 65536u /* poisoned on either side of an allocation */
#define FREED_COUNT 64
#define NEAR_BYTES                                                                     \
    (UINT64_C(16) << 20) /* how far away an allocation is still named                  \
                          */

struct entry {
    uint64_t from, to; /* `to` excluded */
    struct allocation *allocation;
};

static struct entry *entries; /* sorted by address, never overlapping */
static size_t entry_count, entry_cap;
static atomic_uint_fast64_t generation = 1; /* of entries: caches of lookups go by it */
static uint64_t next_id = 1;
static uint64_t used_bytes;

static uint64_t window_from, window_to, window_next;

static struct freed {
    uint64_t from, to;
} freed[FREED_COUNT];
static size_t freed_next;

/* Index of the first entry that ends behind `address`. */
static size_t entry_search(uint64_t address)
{
    size_t low = 0, high = entry_count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (entries[mid].to <= address)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

const struct allocation *memory_find(uint64_t address)
{
    size_t i = entry_search(address);
    if (i == entry_count || entries[i].from > address)
        return NULL;
    return entries[i].allocation;
}

uint8_t *memory_at(uint64_t address, uint64_t bytes, bool write)
{
    /* Lanes of a warp, and warps of a CTA, mostly stay in one allocation. */
    static _Thread_local struct {
        uint64_t generation, from, to;
        bool writable;
    } last;

    uint64_t now = atomic_load_explicit(&generation, memory_order_acquire);
    if (last.generation != now || address < last.from || address >= last.to) {
        size_t i = entry_search(address);
        if (i == entry_count || entries[i].from > address)
            return NULL;
        last.generation = now;
        last.from = entries[i].from;
        last.to = entries[i].to;
        last.writable = entries[i].allocation->writable;
    }
    if (bytes > last.to - address || (write && !last.writable))
        return NULL;
    return (uint8_t *)(uintptr_t)address;
}

bool memory_contains(uint64_t address, uint64_t bytes)
{
    return memory_at(address, bytes, false) != NULL;
}

static bool in_window(uint64_t address)
{
    return address >= window_from && address < window_to;
}

bool memory_is_device_address(uint64_t address)
{
    return in_window(address);
}

size_t memory_count(void)
{
    return entry_count;
}

const struct allocation *memory_nth(size_t i)
{
    return i < entry_count ? entries[i].allocation : NULL;
}

uint64_t memory_used_bytes(void)
{
    return used_bytes;
}

/* ---- reports */

/* "the 4096-byte allocation at 0x7f0000000200" */
static const char *name_of(const struct allocation *m, char *text, size_t text_bytes)
{
    static const char *const kinds[] = {
        [MEMORY_DEVICE] = "allocation",
        [MEMORY_MANAGED] = "managed allocation",
        [MEMORY_HOST] = "page-locked host allocation",
        [MEMORY_REGISTERED] = "registered host memory",
        [MEMORY_GLOBAL] = "variable",
        [MEMORY_CONST] = "constant",
        [MEMORY_PARAM] = "kernel parameter block",
    };
    snprintf(text, text_bytes, "the %" PRIu64 "-byte %s%s%s at 0x%" PRIx64, m->bytes,
             kinds[m->kind], m->name ? " " : "", m->name ? m->name : "", m->address);
    return text;
}

const char *memory_describe(uint64_t address, uint64_t bytes, char *text,
                            size_t text_bytes)
{
    char name[160];
    uint64_t last =
        bytes > 1 && address + bytes - 1 > address ? address + bytes - 1 : address;
    size_t i = entry_search(address);
    const struct entry *at = i < entry_count ? &entries[i] : NULL;
    const struct entry *below = i > 0 ? &entries[i - 1] : NULL;

    if (at && at->from <= address) {
        name_of(at->allocation, name, sizeof name);
        if (last >= at->to)
            snprintf(text, text_bytes,
                     "the last %" PRIu64 " of %" PRIu64 " bytes lie past the end of %s",
                     last - at->to + 1, bytes, name);
        else
            snprintf(text, text_bytes, "%" PRIu64 " bytes into %s%s",
                     address - at->from, name,
                     at->allocation->writable ? "" : ", which kernels only read");
        return text;
    }
    for (size_t f = 0; f < FREED_COUNT; f++) {
        if (address >= freed[f].from && address < freed[f].to) {
            snprintf(text, text_bytes,
                     "in the %" PRIu64 " bytes at 0x%" PRIx64 " that were freed",
                     freed[f].to - freed[f].from, freed[f].from);
            return text;
        }
    }
    uint64_t past = below ? address - below->to : UINT64_MAX;
    uint64_t before = at ? at->from - address : UINT64_MAX;
    if (past == 0)
        snprintf(text, text_bytes, "right behind the end of %s",
                 name_of(below->allocation, name, sizeof name));
    else if (past <= before && past < NEAR_BYTES)
        snprintf(text, text_bytes, "%" PRIu64 " bytes past the end of %s", past,
                 name_of(below->allocation, name, sizeof name));
    else if (before < NEAR_BYTES)
        snprintf(text, text_bytes, "%" PRIu64 " bytes before the start of %s", before,
                 name_of(at->allocation, name, sizeof name));
    else if (address < PAGE_BYTES)
        snprintf(text, text_bytes, "a null pointer");
    else
        snprintf(text, text_bytes, "near no allocation");
    return text;
}

/* ---- the registry */

static bool insert(struct allocation *m)
{
    if (entry_count == entry_cap) {
        size_t cap = entry_cap ? entry_cap * 2 : 64;
        struct entry *grown = realloc(entries, cap * sizeof *grown);
        if (!grown)
            return false;
        entries = grown;
        entry_cap = cap;
    }
    size_t i = entry_search(m->address);
    memmove(&entries[i + 1], &entries[i], (entry_count - i) * sizeof *entries);
    entries[i] = (struct entry){m->address, m->address + m->bytes, m};
    entry_count++;
    atomic_fetch_add_explicit(&generation, 1, memory_order_release);
    return true;
}

static bool counts_as_used(enum memory_kind kind)
{
    return kind == MEMORY_DEVICE || kind == MEMORY_MANAGED || kind == MEMORY_GLOBAL ||
           kind == MEMORY_CONST;
}

static bool add(enum memory_kind kind, uint64_t address, uint64_t bytes,
                const void *owner)
{
    size_t i = entry_search(address);
    if (address + bytes < address ||
        (i < entry_count && entries[i].from < address + bytes))
        return false;
    struct allocation *m = calloc(1, sizeof *m);
    if (!m)
        return false;
    m->address = address;
    m->bytes = bytes;
    m->kind = kind;
    m->writable = kind != MEMORY_CONST && kind != MEMORY_PARAM;
    m->id = next_id++;
    m->owner = owner;
    if (!insert(m)) {
        free(m);
        return false;
    }
    if (counts_as_used(kind))
        used_bytes += bytes;
    return true;
}

bool memory_add(enum memory_kind kind, const void *host, uint64_t bytes,
                const void *owner)
{
    return add(kind, (uint64_t)(uintptr_t)host, bytes, owner);
}

void memory_label(uint64_t address, const char *name, uint32_t flags)
{
    size_t i = entry_search(address);
    assert(i < entry_count && entries[i].from == address);
    entries[i].allocation->name = name;
    entries[i].allocation->flags = flags;
}

static void remove_entry(size_t i)
{
    struct allocation *m = entries[i].allocation;
    if (counts_as_used(m->kind))
        used_bytes -= m->bytes;
    if (m->kind != MEMORY_PARAM) {
        freed[freed_next] = (struct freed){entries[i].from, entries[i].to};
        freed_next = (freed_next + 1) % FREED_COUNT;
    }
    if (in_window(m->address)) {
        uint64_t from = m->address / PAGE_BYTES * PAGE_BYTES;
        uint64_t to =
            (m->address + m->bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
        /* No two allocations share a page: this returns the memory to the system. */
        madvise((void *)(uintptr_t)from, to - from, MADV_DONTNEED);
        HIDE((void *)(uintptr_t)m->address, m->bytes);
    }
    free(m);
    entry_count--;
    memmove(&entries[i], &entries[i + 1], (entry_count - i) * sizeof *entries);
    if (entry_count == 0) {
        free(entries);
        entries = NULL;
        entry_cap = 0;
    }
    atomic_fetch_add_explicit(&generation, 1, memory_order_release);
}

bool memory_free(uint64_t address)
{
    size_t i = entry_search(address);
    if (i == entry_count || entries[i].from != address)
        return false;
    remove_entry(i);
    return true;
}

void memory_free_owned(const void *owner)
{
    for (size_t i = entry_count; i-- > 0;)
        if (entries[i].allocation->owner == owner)
            remove_entry(i);
}

/* ---- the window */

static bool window_reserve(void)
{
    if (window_to)
        return true;
    /* Address space only, pages come with the first touch.  Less of it where a limit
     * (ulimit -v) forbids more. */
    for (uint64_t bytes = WINDOW_MAX_BYTES; bytes >= WINDOW_MIN_BYTES; bytes /= 2) {
        void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED)
            continue;
        window_from = (uint64_t)(uintptr_t)p;
        window_to = window_from + bytes;
        window_next = window_from + MEMORY_GAP_BYTES;
        return true;
    }
    return false;
}

/* First address at or after `from` that suits; small allocations are deliberately not
 * aligned to more than cuMemAlloc promises. */
static uint64_t place(uint64_t from, uint64_t bytes, uint64_t align_bytes)
{
    uint64_t align =
        align_bytes > MEMORY_ALIGN_BYTES ? align_bytes : MEMORY_ALIGN_BYTES;
    if (bytes >= LARGE_BYTES && align < LARGE_BYTES)
        align = LARGE_BYTES;
    if (align >= PAGE_BYTES)
        return (from + align - 1) / align * align;
    return (from + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES + align;
}

/* `bytes` of the window, MEMORY_GAP_BYTES away from every allocation; 0: none. */
static uint64_t window_take(uint64_t bytes, uint64_t align_bytes)
{
    uint64_t address = place(window_next, bytes, align_bytes);
    for (size_t i = entry_search(address);
         address + bytes + MEMORY_GAP_BYTES <= window_to; i++) {
        uint64_t limit =
            i < entry_count && in_window(entries[i].from) ? entries[i].from : window_to;
        if (address + bytes + MEMORY_GAP_BYTES <= limit)
            return address;
        if (limit == window_to)
            break;
        address = place(entries[i].to + MEMORY_GAP_BYTES, bytes, align_bytes);
    }
    return 0;
}

uint64_t memory_alloc(enum memory_kind kind, uint64_t bytes, uint64_t align_bytes,
                      const void *owner)
{
    assert(bytes && (align_bytes & (align_bytes - 1)) == 0);
    if (!window_reserve() || bytes > window_to - window_from)
        return 0;
    uint64_t address = window_take(bytes, align_bytes);
    if (!address) { /* once round: now addresses of freed memory come again */
        window_next = window_from + MEMORY_GAP_BYTES;
        address = window_take(bytes, align_bytes);
    }
    if (!address || !add(kind, address, bytes, owner))
        return 0;
    window_next = address + bytes + MEMORY_GAP_BYTES;

    uint8_t *p = (uint8_t *)(uintptr_t)address;
    HIDE(p - HIDE_BYTES, HIDE_BYTES);
    HIDE(p + bytes, HIDE_BYTES);
    SHOW(p, bytes);
    if (kind != MEMORY_HOST)
        memset(p, MEMORY_POISON, bytes);
    return address;
}
