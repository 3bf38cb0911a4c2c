#include "emu/handle.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

/* Open addressing with linear probing; at most half full.  Removal closes the gap, so
 * there are no tombstones. */
static struct slot {
    const void *p;
    enum handle_kind kind;
} * slots;
static size_t slot_count, used_count;

static size_t home_of(const void *p)
{
    uint64_t x = (uint64_t)(uintptr_t)p >> 4;
    return (size_t)(x * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (slot_count - 1);
}

/* The slot of `p`, or the free one where it belongs. */
static size_t slot_of(const void *p)
{
    size_t i = home_of(p);
    while (slots[i].p && slots[i].p != p)
        i = (i + 1) & (slot_count - 1);
    return i;
}

static bool grow(void)
{
    struct slot *old = slots;
    size_t old_count = slot_count;
    size_t count = old_count ? old_count * 2 : 64;

    struct slot *grown = calloc(count, sizeof *grown);
    if (!grown)
        return false;
    slots = grown;
    slot_count = count;
    for (size_t i = 0; i < old_count; i++)
        if (old[i].p)
            slots[slot_of(old[i].p)] = old[i];
    free(old);
    return true;
}

bool handle_add(const void *p, enum handle_kind kind)
{
    if (used_count * 2 >= slot_count && !grow())
        return false;
    size_t i = slot_of(p);
    assert(!slots[i].p);
    slots[i] = (struct slot){p, kind};
    used_count++;
    return true;
}

void handle_drop(const void *p)
{
    if (!slot_count)
        return;
    size_t gap = slot_of(p);
    if (!slots[gap].p)
        return;
    used_count--;
    slots[gap] = (struct slot){0};
    for (size_t i = (gap + 1) & (slot_count - 1); slots[i].p;
         i = (i + 1) & (slot_count - 1)) {
        size_t from_home = (i - home_of(slots[i].p)) & (slot_count - 1);
        size_t from_gap = (i - gap) & (slot_count - 1);
        if (from_home < from_gap)
            continue;
        slots[gap] = slots[i];
        slots[i] = (struct slot){0};
        gap = i;
    }
    if (used_count == 0) {
        free(slots);
        slots = NULL;
        slot_count = 0;
    }
}

enum handle_kind handle_kind(const void *p)
{
    if (!slot_count || !p)
        return HANDLE_NONE;
    size_t i = slot_of(p);
    return slots[i].p ? slots[i].kind : HANDLE_NONE;
}

size_t handle_count(void)
{
    return used_count;
}
