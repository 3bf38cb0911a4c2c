/* The test for a real H200 (tests/h200), on the emulator: so that it is known to be
 * right before a GPU is asked, and the emulator's TMA is asked by a second program. */
#include "tests/h200/tma_copy.h"
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check_copy(const char *strategy)
{
    struct arena *a = arena_new();
    size_t bytes;
    char *ptx = file_read(a, "tests/h200/tma_copy.ptx", &bytes);
    CHECK(ptx != NULL); /* tests run in the root of the tree */
    setenv("FP4EMU_DEVICE", "sm_90", 1);
    setenv("FP4EMU_STRATEGY", strategy, 1);
    CHECK_EQ(tma_copy_test(FP4GEN_DRIVER_EMU, ptx, bytes, stdout), 0);
    arena_free(a);
}

TEST(tma_copy_with_eager_completion)
{
    check_copy("eager");
}

TEST(tma_copy_with_lazy_completion)
{
    check_copy("lazy");
}
