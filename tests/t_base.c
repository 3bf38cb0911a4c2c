/* core/base.c: files. */
#include <errno.h>
#include <string.h>

#include "core/base.h"
#include "tests/test.h"

TEST(files_come_back_as_they_were_written)
{
    struct arena *a = arena_new();
    const char *path = test_tmp_path("data");
    static const char data[] = "one\0two\n";
    size_t bytes = 0;
    CHECK(file_write(path, data, sizeof data));
    const char *text = file_read(a, path, &bytes);
    CHECK(text != NULL);
    CHECK_EQ(bytes, sizeof data);
    CHECK(memcmp(text, data, sizeof data) == 0 && text[bytes] == '\0');
    arena_free(a);
}

TEST(files_without_an_end_are_refused)
{
    struct arena *a = arena_new();
    size_t bytes = 0;
    errno = 0;
    CHECK(file_read(a, "/dev/zero", &bytes) == NULL);
    CHECK_EQ(errno, EFBIG);
    CHECK(file_read(a, "/", &bytes) == NULL);
    CHECK_EQ(errno, EISDIR);
    arena_free(a);
}
