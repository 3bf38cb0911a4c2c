/* emu/memory.c and emu/handle.c: what an address means, which handles live. */
#include "emu/handle.h"
#include "emu/memory.h"
#include "tests/test.h"

#include <stdlib.h>
#include <string.h>

static int owner_a, owner_b;

static uint64_t device(uint64_t bytes)
{
    uint64_t p = memory_alloc(MEMORY_DEVICE, bytes, 1, &owner_a);
    CHECK(p);
    return p;
}

TEST(an_allocation_ends_where_it_ends)
{
    uint64_t p = device(100);
    CHECK(memory_at(p, 100, true) == (uint8_t *)(uintptr_t)p);
    CHECK(memory_at(p + 99, 1, true));
    CHECK(memory_at(p + 99, 0, true));
    CHECK(!memory_at(p + 99, 2, true));
    CHECK(!memory_at(p + 100, 1, false));
    CHECK(!memory_at(p + 100, 0, false));
    CHECK(!memory_at(p - 1, 1, false));
    CHECK(!memory_at(p - 1, 2, false));
    CHECK(!memory_at(p, UINT64_MAX, false));
    CHECK(!memory_at(p + 50, UINT64_MAX - 20, false)); /* wraps round */
    CHECK(!memory_at(0, 1, false));
    CHECK(!memory_at(UINT64_MAX, 1, false));
    CHECK(memory_contains(p, 100));
    CHECK(!memory_contains(p, 101));
    CHECK(memory_find(p + 99)->address == p);
    CHECK(!memory_find(p + 100));
}

TEST(lookups_see_what_has_changed)
{
    uint64_t p = device(64), q = device(64);
    CHECK(memory_at(p, 4, true)); /* cached from here on */
    CHECK(memory_at(q, 4, true));
    CHECK(memory_free(q));
    CHECK(!memory_at(q, 4, true));
    CHECK(memory_at(p, 4, true));
    CHECK(memory_free(p));
    CHECK(!memory_at(p, 4, true));
    CHECK(!memory_free(p));
    CHECK_EQ(memory_count(), 0);
}

TEST(allocations_lie_apart)
{
    uint64_t p[50];
    for (int i = 0; i < 50; i++)
        p[i] = device((uint64_t)i * 1000 + 1);
    for (int i = 1; i < 50; i++)
        CHECK(p[i] >= p[i - 1] + (uint64_t)(i - 1) * 1000 + 1 + MEMORY_GAP_BYTES);
    CHECK_EQ(memory_count(), 50);
    for (size_t i = 1; i < memory_count(); i++)
        CHECK(memory_nth(i - 1)->address < memory_nth(i)->address);
    CHECK(!memory_nth(50));
}

TEST(read_only_memory)
{
    uint64_t p = memory_alloc(MEMORY_CONST, 16, 16, &owner_a);
    CHECK(memory_at(p, 16, false));
    CHECK(!memory_at(p, 16, true));
    static char block[64];
    CHECK(memory_add(MEMORY_PARAM, block, sizeof block, &owner_a));
    CHECK(memory_contains((uint64_t)(uintptr_t)block, 64));
    CHECK(!memory_at((uint64_t)(uintptr_t)block, 1, true));
}

TEST(registered_memory_does_not_overlap)
{
    static char host[100];
    uint64_t p = (uint64_t)(uintptr_t)host;
    CHECK(memory_add(MEMORY_REGISTERED, host + 10, 50, &owner_a));
    CHECK(!memory_add(MEMORY_REGISTERED, host, 100, &owner_a));
    CHECK(!memory_add(MEMORY_REGISTERED, host, 11, &owner_a));
    CHECK(!memory_add(MEMORY_REGISTERED, host + 59, 10, &owner_a));
    CHECK(!memory_add(MEMORY_REGISTERED, host + 20, 5, &owner_a));
    CHECK(memory_add(MEMORY_REGISTERED, host, 10, &owner_a));
    CHECK(memory_add(MEMORY_REGISTERED, host + 60, 40, &owner_a));
    CHECK(!memory_contains(p, 11)); /* neighbours are two allocations */
    CHECK(memory_contains(p + 10, 50));
    CHECK(!memory_is_device_address(p));
    CHECK(memory_is_device_address(device(1)));
}

TEST(owners_take_their_memory_along)
{
    uint64_t p = device(1000);
    uint64_t q = memory_alloc(MEMORY_GLOBAL, 24, 8, &owner_b);
    uint64_t r = memory_alloc(MEMORY_HOST, 500, 1, &owner_b);
    CHECK_EQ(memory_used_bytes(), 1024); /* host memory is none of the device's */
    memory_free_owned(&owner_b);
    CHECK_EQ(memory_used_bytes(), 1000);
    CHECK(!memory_find(q) && !memory_find(r) && memory_find(p));
    memory_free_owned(&owner_a);
    CHECK_EQ(memory_used_bytes(), 0);
}

TEST(fresh_memory)
{
    uint64_t p = device(3), h = memory_alloc(MEMORY_HOST, 3, 1, &owner_a);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(*memory_at(p + (uint64_t)i, 1, false), MEMORY_POISON);
        CHECK_EQ(*memory_at(h + (uint64_t)i, 1, false), 0);
    }
}

TEST(alignment)
{
    for (uint64_t align = 1; align <= (1u << 24); align *= 2) {
        uint64_t p = memory_alloc(MEMORY_DEVICE, 100, align, &owner_a);
        CHECK_EQ(p % align, 0);
        CHECK_EQ(p % MEMORY_ALIGN_BYTES, 0);
    }
}

static void check_text(uint64_t address, uint64_t bytes, const char *words)
{
    char text[256];
    memory_describe(address, bytes, text, sizeof text);
    if (!strstr(text, words))
        test_fail(__FILE__, __LINE__, "\"%s\" does not say \"%s\"", text, words);
}

TEST(addresses_are_described)
{
    uint64_t p = device(4096);
    memory_label(p, "lut", 0);
    check_text(p + 10, 4, "10 bytes into the 4096-byte allocation lut");
    check_text(p + 4094, 4, "the last 2 of 4 bytes lie past the end");
    check_text(p + 4096, 4, "right behind the end of the 4096-byte allocation lut");
    check_text(p + 4100, 4, "4 bytes past the end");
    check_text(p - 16, 4, "16 bytes before the start");
    check_text(0, 4, "a null pointer");
    check_text(UINT64_C(0x7000000000000000), 4, "near no allocation");
    check_text(UINT64_MAX, 8, "near no allocation");
    uint64_t c = memory_alloc(MEMORY_CONST, 8, 8, &owner_a);
    check_text(c, 4, "which kernels only read");
    memory_free(p);
    check_text(p + 8, 4, "freed");
}

/* Address space is used up once round before an address comes again. */
TEST(window_is_used_in_turns)
{
#if defined(__SANITIZE_ADDRESS__)
    SKIP("shadow memory of 100 GiB");
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
    SKIP("shadow memory of 100 GiB");
#endif
#endif
    const uint64_t bytes = UINT64_C(100) << 30; /* never touched */
    uint64_t small = device(1 << 20), first = 0, last = 0;
    int rounds = 0;
    for (int i = 0; i < 40; i++) {
        uint64_t p = memory_alloc(MEMORY_HOST, bytes, 1, &owner_a);
        if (!p)
            SKIP("address space is limited here");
        CHECK(p + bytes <= small || p >= small + (1 << 20));
        if (!first)
            first = p;
        else if (p < last)
            rounds++;
        last = p;
        CHECK(memory_free(p));
    }
    CHECK(rounds >= 2 && rounds < 10);
    CHECK(memory_contains(small, 1 << 20));
    CHECK(!memory_alloc(MEMORY_HOST, UINT64_C(1) << 50, 1, &owner_a));
}

/* ---- handles */

TEST(handles_live_until_they_are_dropped)
{
    enum { COUNT = 3000 };
    static char objects[COUNT * 16];
    CHECK_EQ(handle_kind(objects), HANDLE_NONE);
    handle_drop(objects);
    for (int i = 0; i < COUNT; i++)
        CHECK(handle_add(objects + i * 16, i % 2 ? HANDLE_STREAM : HANDLE_EVENT));
    CHECK_EQ(handle_count(), COUNT);
    for (int i = 0; i < COUNT; i += 3)
        handle_drop(objects + i * 16);
    for (int i = 0; i < COUNT; i++)
        CHECK_EQ(handle_kind(objects + i * 16), i % 3 == 0 ? HANDLE_NONE
                                                : i % 2    ? HANDLE_STREAM
                                                           : HANDLE_EVENT);
    CHECK_EQ(handle_kind(objects + 1), HANDLE_NONE);
    CHECK_EQ(handle_kind(NULL), HANDLE_NONE);
    for (int i = 0; i < COUNT; i++)
        handle_drop(objects + i * 16);
    CHECK_EQ(handle_count(), 0);
}
