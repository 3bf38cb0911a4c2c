#include "emu/libcuda.h"

#include <string.h>

#include "emu/device.h"
#include "emu/memory.h"
#include "emu/module.h"

#define PORTABLE_CLUSTER 8

/* Functions and kernels are the same objects: cuKernelX is cuFuncX with a cast. */

static CUresult enter_function(CUfunction f, const void *out)
{
    CUresult r = enter();
    if (r == CUDA_SUCCESS && handle_kind(f) != HANDLE_FUNCTION)
        r = CUDA_ERROR_INVALID_HANDLE;
    return r == CUDA_SUCCESS && !out ? CUDA_ERROR_INVALID_VALUE : r;
}

static uint32_t const_bytes(const struct CUfunc_st *f)
{
    uint32_t sum = 0;
    for (int i = 0; i < f->module->var_count; i++)
        if (f->module->vars[i].var->space == PTX_CONST)
            sum += f->module->vars[i].var->bytes;
    return sum;
}

static uint32_t max_dyn_smem(const struct CUfunc_st *f)
{
    uint32_t normal = 48 * 1024, fixed = f->kernel->static_smem_bytes;
    if (f->max_dyn_smem_bytes)
        return f->max_dyn_smem_bytes;
    return fixed < normal ? normal - fixed : 0;
}

static CUresult get(const struct CUfunc_st *f, int attribute, int *value)
{
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = function_max_threads(f);
        break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
        *value = (int)f->kernel->static_smem_bytes;
        break;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
        *value = (int)const_bytes(f);
        break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
        *value = (int)f->kernel->local_bytes;
        break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *value = function_registers(f);
        break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION: /* of the architecture, as with nvcc */
        *value = f->module->ptx->target->cc;
        break;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        *value = shown_device()->cc;
        break;
    case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
        *value = 0;
        break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = (int)max_dyn_smem(f);
        break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        *value = f->carveout;
        break;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
        *value = f->ptx->explicit_cluster && !f->cluster[0];
        break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
        *value = (int)f->cluster[attribute - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH];
        break;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        *value = f->nonportable_cluster;
        break;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        *value = f->scheduling;
        break;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

static CUresult set_dyn_smem(struct CUfunc_st *f, int value)
{
    uint32_t most = device_target(shown_device())->smem_bytes;
    uint32_t fixed = f->kernel->static_smem_bytes;
    if (value < 0 || fixed > most || (uint32_t)value > most - fixed)
        return CUDA_ERROR_INVALID_VALUE;
    f->max_dyn_smem_bytes = (uint32_t)value;
    return CUDA_SUCCESS;
}

static CUresult set_cluster(struct CUfunc_st *f, int axis, int value)
{
    if (value < 0 || value > shown_device()->max_cluster)
        return CUDA_ERROR_INVALID_VALUE;
    if (f->ptx->reqnctapercluster[0]) /* the PTX has fixed it */
        return CUDA_ERROR_NOT_PERMITTED;
    f->cluster[axis] = (uint32_t)value;
    return CUDA_SUCCESS;
}

static CUresult set(struct CUfunc_st *f, int attribute, int value)
{
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        return set_dyn_smem(f, value);
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        if (value < -1 || value > 100)
            return CUDA_ERROR_INVALID_VALUE;
        f->carveout = value;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
        return set_cluster(f, attribute - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH,
                           value);
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        if (value != 0 && value != 1)
            return CUDA_ERROR_INVALID_VALUE;
        f->nonportable_cluster = value != 0;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        if (value < 0 || value > CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING)
            return CUDA_ERROR_INVALID_VALUE;
        f->scheduling = value;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

EXPORTED CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute,
                                     CUfunction f)
{
    CUresult r = enter_function(f, value);
    return leave(r == CUDA_SUCCESS ? get(f, (int)attribute, value) : r);
}

EXPORTED CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute attribute,
                                     int value)
{
    CUresult r = enter_function(f, f);
    return leave(r == CUDA_SUCCESS ? set(f, (int)attribute, value) : r);
}

EXPORTED CUresult cuFuncGetName(const char **name, CUfunction f)
{
    CUresult r = enter_function(f, name);
    if (r == CUDA_SUCCESS)
        *name = f->ptx->name;
    return leave(r);
}

EXPORTED CUresult cuFuncGetModule(CUmodule *out, CUfunction f)
{
    CUresult r = enter_function(f, out);
    if (r == CUDA_SUCCESS)
        *out = f->module;
    return leave(r);
}

EXPORTED CUresult cuFuncGetParamInfo(CUfunction f, size_t index, size_t *offset,
                                     size_t *bytes)
{
    CUresult r = enter_function(f, offset);
    if (r == CUDA_SUCCESS && index >= (size_t)f->ptx->param_count)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS) {
        *offset = f->ptx->params[index]->offset_bytes;
        if (bytes)
            *bytes = f->ptx->params[index]->bytes;
    }
    return leave(r);
}

EXPORTED CUresult cuFuncSetCacheConfig(CUfunction f, CUfunc_cache config)
{
    CUresult r = enter_function(f, f);
    if (r == CUDA_SUCCESS && (unsigned)config > CU_FUNC_CACHE_PREFER_EQUAL)
        r = CUDA_ERROR_INVALID_VALUE;
    return leave(r);
}

EXPORTED CUresult cuFuncSetSharedMemConfig(CUfunction f, CUsharedconfig config)
{
    CUresult r = enter_function(f, f);
    if (r == CUDA_SUCCESS &&
        (unsigned)config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE)
        r = CUDA_ERROR_INVALID_VALUE;
    return leave(r);
}

EXPORTED CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction f)
{
    CUresult r = enter_function(f, state);
    if (r == CUDA_SUCCESS)
        *state = CU_FUNCTION_LOADING_STATE_LOADED;
    return leave(r);
}

EXPORTED CUresult cuFuncLoad(CUfunction f)
{
    return leave(enter_function(f, f));
}

/* ---- kernels of libraries */

static CUfunction function_of(CUkernel k)
{
    return (CUfunction)(void *)k;
}

EXPORTED CUresult cuKernelGetFunction(CUfunction *out, CUkernel k)
{
    CUresult r = enter_function(function_of(k), out);
    if (r == CUDA_SUCCESS)
        *out = function_of(k);
    return leave(r);
}

EXPORTED CUresult cuKernelGetAttribute(int *value, CUfunction_attribute attribute,
                                       CUkernel k, CUdevice dev)
{
    return dev ? CUDA_ERROR_INVALID_DEVICE
               : cuFuncGetAttribute(value, attribute, function_of(k));
}

EXPORTED CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value,
                                       CUkernel k, CUdevice dev)
{
    return dev ? CUDA_ERROR_INVALID_DEVICE
               : cuFuncSetAttribute(function_of(k), attribute, value);
}

EXPORTED CUresult cuKernelSetCacheConfig(CUkernel k, CUfunc_cache config, CUdevice dev)
{
    return dev ? CUDA_ERROR_INVALID_DEVICE
               : cuFuncSetCacheConfig(function_of(k), config);
}

EXPORTED CUresult cuKernelGetName(const char **name, CUkernel k)
{
    return cuFuncGetName(name, function_of(k));
}

EXPORTED CUresult cuKernelGetParamInfo(CUkernel k, size_t index, size_t *offset,
                                       size_t *bytes)
{
    return cuFuncGetParamInfo(function_of(k), index, offset, bytes);
}
