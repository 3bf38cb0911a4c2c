/* Scalar, warp and matrix instructions on the emulator: bit for bit what an H200 made
 * of the same edge cases (tests/h200/conform.h). */
#include "tests/h200/conform.h"
#include "tests/test.h"

#include <stdlib.h>
#include <string.h>

static char *text_of(struct arena *a, const char *path)
{
    size_t bytes;
    char *text = file_read(a, path, &bytes);
    CHECK(text != NULL); /* tests run in the root of the tree */
    return text;
}

static void as_recorded(void)
{
    setenv("FP4EMU_DEVICE", "sm_90", 1);
    setenv("FP4EMU_MMA", "hardware", 1);
}

TEST(as_an_h200)
{
    struct arena *a = arena_new();
    struct conform c;
    fp4gen_error err = {0};
    as_recorded();
    if (!conform_read(&c, text_of(a, "tests/h200/conform.txt")))
        test_fail(__FILE__, __LINE__, "%s", c.wrong);
    if (!conform_run(&c, FP4GEN_DRIVER_EMU, NULL, &err))
        test_fail(__FILE__, __LINE__, "%s", err.text);
    CHECK(c.count > 1000);
    CHECK_EQ(conform_compare(&c, text_of(a, "tests/h200/conform_h200.txt"), stdout), 0);
    conform_free(&c);
    arena_free(a);
}

static int compared(const struct conform *c, const char *recorded, char *said,
                    size_t bytes)
{
    FILE *f = tmpfile();
    int wrong = conform_compare(c, recorded, f);
    rewind(f);
    said[fread(said, 1, bytes - 1, f)] = '\0';
    fclose(f);
    return wrong;
}

/* That the comparison can fail. */
TEST(a_wrong_record_is_told)
{
    char said[512];
    struct conform c;
    fp4gen_error err = {0};
    as_recorded();
    CHECK(conform_read(&c, "rrr <add|sub>.u32\nphh [less] setp.lt.u16 %0, %1,\n"
                           "  %2;\n~ff rcp.approx.f32\n"));
    CHECK_EQ(c.count, 4);
    CHECK_STR(c.cases[1].text, "sub.u32 %0, %1, %2;");
    CHECK(conform_run(&c, FP4GEN_DRIVER_EMU, NULL, &err));
    char *right = NULL;
    size_t bytes;
    FILE *f = open_memstream(&right, &bytes);
    conform_write(&c, f);
    fclose(f);
    CHECK_EQ(compared(&c, right, said, sizeof said), 0);
    CHECK_STR(said, "");
    char *second = strchr(right, '\n') + 1;
    second[4] ^= 1; /* of threads 512 to 1023 */
    CHECK_EQ(compared(&c, right, said, sizeof said), 1);
    CHECK_STR(said,
              "rrr sub.u32: other results than recorded in threads 512 to 1023\n");
    second[4] ^= 1;
    strrchr(right, 'r')[0] = 's'; /* the name of the last one */
    CHECK_EQ(compared(&c, right, said, sizeof said), 1);
    CHECK(strstr(said, "line 4") != NULL);
    free(right);
    conform_free(&c);
}

TEST(a_list_with_a_mistake_is_refused)
{
    struct conform c;
    CHECK(!conform_read(&c, "rrr <add|sub.u32\n"));
    CHECK_STR(c.wrong, "no > after <: <add|sub.u32");
    conform_free(&c);
    CHECK(!conform_read(&c, "rrr\n"));
    conform_free(&c);
    CHECK(!conform_read(&c, "rrrrrrrr add.u32\n"));
    conform_free(&c);
}
