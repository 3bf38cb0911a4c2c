/* gen/npy.c: the files that numpy writes are read, and everything else is refused. */
#include "gen/npy.h"
#include "tests/test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* An .npy file of version 1 around a dictionary and data. */
static const char *file_of(const char *dict, const void *data, size_t bytes)
{
    static unsigned char text[4096];
    size_t chars = strlen(dict);
    memcpy(text, "\x93NUMPY\x01", 7);
    text[7] = 0;
    text[8] = (unsigned char)(chars & 255);
    text[9] = (unsigned char)(chars >> 8);
    memcpy(text + 10, dict, chars);
    if (bytes)
        memcpy(text + 10 + chars, data, bytes);
    static const char *path;
    if (!path)
        path = test_tmp_path("x.npy");
    CHECK(file_write(path, text, 10 + chars + bytes));
    return path;
}

#define DICT(descr, order, shape)                                                      \
    "{'descr': '" descr "', 'fortran_order': " order ", 'shape': " shape ", }    \n"

static const float six[6] = {1, 2, 3, 4, 5, -0.5f};

/* Refused with this code; the place is the file. */
static void check_refused(const char *path, bool void_is_bf16, const char *code)
{
    struct arena *a = arena_new();
    struct diags *d = diags_new(a);
    struct npy n;
    if (npy_read(path, void_is_bf16, &n, d))
        test_fail(__FILE__, __LINE__, "accepted, not refused as %s", code);
    CHECK_DIAG(d, code, 0);
    CHECK_EQ(d->count, 1);
    CHECK_STR(d->first->loc.file, path);
    CHECK(n.data == NULL);
    arena_free(a);
}

static struct npy check_read(const char *path, bool void_is_bf16)
{
    struct arena *a = arena_new();
    struct diags *d = diags_new(a);
    struct npy n;
    npy_read(path, void_is_bf16, &n, d);
    if (d->count)
        CHECK_STR(d->first->text, "");
    arena_free(a);
    return n;
}

TEST(f32)
{
    struct npy n =
        check_read(file_of(DICT("<f4", "False", "(2, 3)"), six, sizeof six), false);
    CHECK_EQ(n.rows, 2);
    CHECK_EQ(n.cols, 3);
    CHECK_EQ(n.type, NPY_F32);
    CHECK(memcmp(n.data, six, sizeof six) == 0);
    npy_free(&n);
}

TEST(f16_and_bf16)
{
    static const unsigned char half[] = {0x00, 0x3c, 0x00, 0xc0}; /* 1, -2 */
    struct npy n = check_read(file_of(DICT("<f2", "False", "(1, 2)"), half, 4), false);
    CHECK_NEAR(n.data[0], 1, 0);
    CHECK_NEAR(n.data[1], -2, 0);
    CHECK_EQ(n.type, NPY_F16);
    npy_free(&n);
    static const unsigned char bf[] = {0x80, 0x3f, 0x00, 0xc0};
    n = check_read(file_of(DICT("<V2", "False", "(2, 1)"), bf, 4), true);
    CHECK_NEAR(n.data[0], 1, 0);
    CHECK_NEAR(n.data[1], -2, 0);
    CHECK_EQ(n.type, NPY_BF16);
    npy_free(&n);
    check_refused(file_of(DICT("|V2", "False", "(2, 1)"), bf, 4), false, "npy-void");
}

TEST(chunks)
{
    static float many[101 * 97];
    for (size_t i = 0; i < COUNT_OF(many); i++)
        many[i] = (float)i;
    struct arena *a = arena_new();
    struct diags *d = diags_new(a);
    const char *path = test_tmp_path("many.npy");
    CHECK(npy_write(path, NPY_F32, many, 101, 97, 97 * 4, d));
    struct npy n = check_read(path, false);
    CHECK_EQ(n.rows, 101);
    CHECK_EQ(n.cols, 97);
    CHECK(memcmp(n.data, many, sizeof many) == 0);
    npy_free(&n);
    arena_free(a);
}

/* Packed codes and scales: bytes where they are wanted, and only there. */
TEST(bytes)
{
    struct arena *a = arena_new();
    struct diags *d = diags_new(a);
    const char *path =
        file_of(DICT("|u1", "False", "(2, 3)"), "\x00\x7f\x80\xff\x01\x02", 6);
    struct npy n;
    CHECK(npy_read_u8(path, &n, d));
    CHECK_EQ(n.type, NPY_U8);
    CHECK_EQ(n.rows, 2);
    CHECK_EQ(n.cols, 3);
    CHECK(n.data == NULL);
    CHECK(memcmp(n.bytes, "\x00\x7f\x80\xff\x01\x02", 6) == 0);
    npy_free(&n);
    CHECK(n.bytes == NULL);
    CHECK(npy_read_any(path, false, &n, d));
    CHECK_EQ(n.bytes[3], 255);
    npy_free(&n);
    check_refused(path, false, "npy-type");
    path = file_of(DICT("|u1", "False", "(2, 3)"), "abcdefg", 7);
    CHECK(!npy_read_u8(path, &n, d));
    CHECK_DIAG(d, "npy-bytes", 0);
    path = file_of(DICT("<f4", "False", "(2, 3)"), six, sizeof six);
    d = diags_new(a);
    CHECK(!npy_read_u8(path, &n, d));
    CHECK_DIAG(d, "npy-type", 0);
    CHECK(npy_read_any(path, false, &n, d));
    CHECK_NEAR(n.data[1], 2, 0);
    npy_free(&n);
    path = file_of(DICT("|V2", "False", "(1, 3)"), "abcdef", 6);
    d = diags_new(a);
    CHECK(!npy_read_u8(path, &n, d));
    CHECK_DIAG(d, "npy-type", 0);
    arena_free(a);
}

/* Versions 2 and 3 have a longer length. */
TEST(versions)
{
    for (unsigned char version = 1; version <= 4; version++) {
        static const char dict[] = DICT("<f4", "False", "(1, 1)");
        unsigned char text[128] = "\x93NUMPY";
        text[6] = version;
        text[8] = sizeof dict - 1;
        size_t start = version == 1 ? 10 : 12;
        memcpy(text + start, dict, sizeof dict - 1);
        memcpy(text + start + sizeof dict - 1, six, 4);
        const char *path = test_tmp_path("v.npy");
        CHECK(file_write(path, text, start + sizeof dict - 1 + 4));
        if (version == 4) {
            check_refused(path, false, "npy-version");
            continue;
        }
        struct npy n = check_read(path, false);
        CHECK_NEAR(n.data[0], 1, 0);
        npy_free(&n);
        text[7] = 1;
        CHECK(file_write(path, text, sizeof text));
        check_refused(path, false, "npy-version");
    }
}

TEST(spelling_of_the_header)
{
    static const char *const same[] = {
        "{'shape':(2,3),'fortran_order':False,'descr':'<f4'}",
        "{\"descr\": \"<f4\", \"shape\": (2, 3,), \"fortran_order\": False, } \n",
        " { 'descr' : '<f4' , 'fortran_order' : False , 'shape' : ( 2 , 3 ) } ",
    };
    for (size_t i = 0; i < COUNT_OF(same); i++) {
        struct npy n = check_read(file_of(same[i], six, sizeof six), false);
        CHECK_EQ(n.rows, 2);
        CHECK_EQ(n.cols, 3);
        npy_free(&n);
    }
    static const char *const wrong[] = {
        "",
        "{",
        "{}",
        "{'descr': '<f4', 'fortran_order': False}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)} x",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (2, 3)}",
        "{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (2, 3)}",
        "{'descr': '<f4, 'fortran_order': False, 'shape': (2, 3)}",
        "{'descr': '<f4' 'fortran_order': False, 'shape': (2, 3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': [2, 3]}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2 3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-2, 3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), 'more': 1}",
        "{'descr': '<f444444444444444444444', 'fortran_order': False, 'shape': (2, 3)}",
    };
    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        check_refused(file_of(wrong[i], six, sizeof six), false, "npy-header");
}

TEST(order_and_type)
{
    check_refused(file_of(DICT("<f4", "True", "(2, 3)"), six, sizeof six), false,
                  "npy-fortran");
    /* numpy calls a single row or column Fortran ordered now and then. */
    struct npy n =
        check_read(file_of(DICT("<f4", "True", "(1, 6)"), six, sizeof six), false);
    CHECK_NEAR(n.data[5], -0.5, 0);
    npy_free(&n);
    check_refused(file_of(DICT(">f4", "False", "(2, 3)"), six, sizeof six), false,
                  "npy-endian");
    static const char *const types[] = {"<f8", "<i4", "|u1", "|S2", "|V4", "<c8"};
    for (size_t i = 0; i < COUNT_OF(types); i++) {
        char dict[128];
        snprintf(dict, sizeof dict,
                 "{'descr': '%s', 'fortran_order': False, 'shape': (2, 3)}", types[i]);
        check_refused(file_of(dict, six, sizeof six), true, "npy-type");
    }
}

TEST(shapes)
{
    check_refused(file_of(DICT("<f4", "False", "()"), six, 4), false, "npy-rank");
    check_refused(file_of(DICT("<f4", "False", "(6,)"), six, 24), false, "npy-rank");
    check_refused(file_of(DICT("<f4", "False", "(1, 2, 3)"), six, 24), false,
                  "npy-rank");
    check_refused(file_of(DICT("<f4", "False", "(2147483648, 1)"), six, 24), false,
                  "npy-big");
    check_refused(
        file_of(DICT("<f4", "False", "(99999999999999999999999, 1)"), six, 24), false,
        "npy-big");
    check_refused(file_of(DICT("<f4", "False", "(2147483647, 2147483647)"), six, 24),
                  false, "npy-bytes");
    struct npy n = check_read(file_of(DICT("<f4", "False", "(0, 5)"), six, 0), false);
    CHECK_EQ(n.rows, 0);
    CHECK_EQ(n.cols, 5);
    npy_free(&n);
}

TEST(too_short_or_too_long)
{
    static const char dict[] = DICT("<f4", "False", "(2, 3)");
    check_refused(file_of(dict, six, sizeof six - 1), false, "npy-bytes");
    check_refused(file_of(dict, six, 0), false, "npy-bytes");
    static const char longer[sizeof six + 1];
    check_refused(file_of(dict, longer, sizeof longer), false, "npy-bytes");
    /* Cut anywhere before the data. */
    size_t bytes;
    struct arena *a = arena_new();
    const char *path = test_tmp_path("cut.npy");
    char *text = file_read(a, file_of(dict, six, sizeof six), &bytes);
    for (size_t cut = 1; cut < bytes - sizeof six; cut++) {
        CHECK(file_write(path, text, cut));
        check_refused(path, false, "npy-truncated");
    }
    arena_free(a);
}

TEST(not_npy)
{
    const char *path = test_tmp_path("other");
    static const char zip[] = "PK\x03\x04 a zip file, as .npz is";
    CHECK(file_write(path, zip, sizeof zip));
    check_refused(path, false, "npy-magic");
    CHECK(file_write(path, "", 0));
    check_refused(path, false, "npy-magic");
    check_refused(test_tmp_path("absent.npy"), false, "npy-open");
    check_refused("/", false, "npy-open");
    unsigned char huge[12] = {0x93, 'N', 'U', 'M', 'P', 'Y', 2, 0, 255, 255, 255, 255};
    CHECK(file_write(path, huge, sizeof huge));
    check_refused(path, false, "npy-header");
}

TEST(written_as_numpy_does)
{
    struct arena *a = arena_new();
    struct diags *d = diags_new(a);
    const char *path = test_tmp_path("out.npy");
    uint16_t padded[2][4] = {{0x3f80, 0xc000, 0, 0}, {0x7fc0, 0x0001, 0, 0}};
    CHECK(npy_write(path, NPY_BF16, padded, 2, 2, sizeof padded[0], d));
    size_t bytes;
    char *text = file_read(a, path, &bytes);
    CHECK_EQ(bytes, 128 + 8);
    static const char start[] = "\x93NUMPY\x01\x00\x76\x00{'descr': '|V2', "
                                "'fortran_order': False, 'shape': (2, 2), }  ";
    CHECK(memcmp(text, start, sizeof start - 1) == 0);
    CHECK_EQ(text[127], '\n');
    CHECK(memchr(text + 10, '\0', 118) == NULL);
    struct npy n = check_read(path, true);
    CHECK_NEAR(n.data[0], 1, 0);
    CHECK_NEAR(n.data[1], -2, 0);
    CHECK(isnan(n.data[2]));
    npy_free(&n);
    CHECK(!npy_write("/no/such/folder/x.npy", NPY_BF16, padded, 2, 2, 8, d));
    CHECK_DIAG(d, "npy-write", 0);
    arena_free(a);
}
