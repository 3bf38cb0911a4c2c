#include "emu/libcuda.h"

#include <stdlib.h>
#include <string.h>

#include "emu/module.h"

/* The linker takes one PTX text and hands it out again as the image: there is no
 * machine code here that several texts could be linked to. */
struct CUlinkState_st {
    struct arena *arena;
    char *text;
};

EXPORTED CUresult cuLinkCreate_v2(unsigned int count, CUjit_option *options,
                                  void **values, CUlinkState *out)
{
    CUresult r = enter();
    (void)options;
    (void)values;
    (void)count;
    if (r == CUDA_SUCCESS && !out)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        return leave(r);
    struct CUlinkState_st *s = calloc(1, sizeof *s);
    if (!s || !handle_add(s, HANDLE_LINK)) {
        free(s);
        return leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    s->arena = arena_new();
    *out = s;
    return leave(CUDA_SUCCESS);
}

static CUresult enter_link(CUlinkState s)
{
    CUresult r = enter();
    return r == CUDA_SUCCESS && handle_kind(s) != HANDLE_LINK
               ? CUDA_ERROR_INVALID_HANDLE
               : r;
}

static CUresult add(struct CUlinkState_st *s, CUjitInputType type, const void *data,
                    size_t bytes)
{
    if (!data || !bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (type != CU_JIT_INPUT_PTX || s->text)
        return CUDA_ERROR_NOT_SUPPORTED;
    s->text = arena_strndup(s->arena, data, bytes);
    return CUDA_SUCCESS;
}

EXPORTED CUresult cuLinkAddData_v2(CUlinkState s, CUjitInputType type, void *data,
                                   size_t bytes, const char *name, unsigned int count,
                                   CUjit_option *options, void **values)
{
    CUresult r = enter_link(s);
    (void)name;
    (void)count;
    (void)options;
    (void)values;
    return leave(r == CUDA_SUCCESS ? add(s, type, data, bytes) : r);
}

EXPORTED CUresult cuLinkAddFile_v2(CUlinkState s, CUjitInputType type, const char *path,
                                   unsigned int count, CUjit_option *options,
                                   void **values)
{
    CUresult r = enter_link(s);
    size_t bytes;
    (void)count;
    (void)options;
    (void)values;
    if (r == CUDA_SUCCESS && !path)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        return leave(r);
    const char *text = file_read(s->arena, path, &bytes);
    return leave(text ? add(s, type, text, bytes) : CUDA_ERROR_FILE_NOT_FOUND);
}

EXPORTED CUresult cuLinkComplete(CUlinkState s, void **image, size_t *bytes)
{
    CUresult r = enter_link(s);
    if (r == CUDA_SUCCESS && (!image || !s->text))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS) {
        *image = s->text;
        if (bytes)
            *bytes = strlen(s->text) + 1;
    }
    return leave(r);
}

EXPORTED CUresult cuLinkDestroy(CUlinkState s)
{
    CUresult r = enter_link(s);
    if (r == CUDA_SUCCESS) {
        handle_drop(s);
        arena_free(s->arena);
        free(s);
    }
    return leave(r);
}
