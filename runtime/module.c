#include "runtime/module.h"

#include <stdlib.h>
#include <string.h>

#include "core/target.h"
#include "runtime/error.h"

#define LOG_BYTES 16384

/* The word behind `directive` in the text, copied; false when there is none. */
static bool read_directive(const char *ptx, const char *directive, char *out,
                           size_t bytes)
{
    for (const char *p = ptx; p; p = strchr(p, '\n')) {
        p += strspn(p, " \t\r\n");
        if (strncmp(p, directive, strlen(directive)) != 0)
            continue;
        p += strlen(directive);
        p += strspn(p, " \t");
        size_t chars = strcspn(p, " \t\r\n,;");
        if (chars == 0 || chars >= bytes)
            return false;
        memcpy(out, p, chars);
        out[chars] = '\0';
        return true;
    }
    return false;
}

/* What the driver would refuse in its own words, told in ours. */
static fp4gen_status check_device(const fp4gen_device *dev, const char *ptx,
                                  fp4gen_error *err)
{
    const struct driver *d = &dev->driver;
    char version[16], target[32];
    if (read_directive(ptx, ".version", version, sizeof version)) {
        char *minor = version;
        long number = strtol(version, &minor, 10) * 10;
        if (*minor == '.')
            number += strtol(minor + 1, NULL, 10);
        int needed = driver_version_for_ptx((int)number);
        if (needed > d->version)
            return fail(err, FP4GEN_LOAD_FAILED, ERROR(DRIVER_OLD), version,
                        needed / 1000, needed % 1000 / 10, d->version / 1000,
                        d->version % 1000 / 10);
    }
    const struct target *t = NULL;
    if (read_directive(ptx, ".target", target, sizeof target))
        t = target_find(target);
    if (t && !d->emulated && !target_runs_on(t, device_cc(dev))) {
        char name[128] = "the device";
        d->cuDeviceGetName(name, sizeof name, dev->device);
        return fail(err, FP4GEN_LOAD_FAILED, ERROR(DEVICE_TARGET), name, device_cc(dev),
                    t->name, t->runs_on);
    }
    return FP4GEN_OK;
}

static fp4gen_status load_text(fp4gen_module *m, const char *text, fp4gen_error *err)
{
    const struct driver *d = &m->dev->driver;
    char *log = calloc(1, LOG_BYTES);
    if (!log)
        return fail(err, FP4GEN_OUT_OF_MEMORY, ERROR(HOST_MEMORY), "loading a kernel");
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER,
                              CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)(uintptr_t)LOG_BYTES};
    fp4gen_status status = device_enter(m->dev, err);
    if (!status) {
        CUresult r = d->cuModuleLoadDataEx(&m->module, text, 2, options, values);
        device_leave(m->dev);
        log[LOG_BYTES - 1] = '\0';
        if (r)
            status = fail_cuda(d, err, FP4GEN_LOAD_FAILED, r, "loading the PTX", NULL);
        if (r && *log)
            fail_note(err, "the driver's log:\n%s", log);
    }
    free(log);
    return status;
}

char *copy_text(const char *ptx, size_t bytes)
{
    char *text = malloc(bytes + 1);
    if (text) {
        memcpy(text, ptx, bytes);
        text[bytes] = '\0';
    }
    return text;
}

fp4gen_status fp4gen_module_load(fp4gen_module **out, fp4gen_device *dev,
                                 const char *ptx, size_t ptx_bytes, fp4gen_error *err)
{
    if (!out || !dev || !ptx)
        return fail(err, FP4GEN_BAD_ARGUMENT, ERROR(NULL_ARGUMENT),
                    "fp4gen_module_load");
    *out = NULL;
    fp4gen_module *m = calloc(1, sizeof *m);
    char *text = copy_text(ptx, ptx_bytes);
    if (!m || !text) {
        free(m);
        free(text);
        return fail(err, FP4GEN_OUT_OF_MEMORY, ERROR(HOST_MEMORY),
                    "fp4gen_module_load");
    }
    m->dev = dev;
    fp4gen_status status = check_device(dev, text, err);
    if (!status)
        status = load_text(m, text, err);
    free(text);
    if (status) {
        free(m);
        return status;
    }
    *out = m;
    return FP4GEN_OK;
}

void fp4gen_module_unload(fp4gen_module *m)
{
    if (!m)
        return;
    if (!device_enter(m->dev, NULL)) {
        m->dev->driver.cuModuleUnload(m->module);
        device_leave(m->dev);
    }
    free(m);
}

fp4gen_status module_function(const fp4gen_module *m, const char *entry,
                              uint32_t smem_bytes, CUfunction *out, fp4gen_error *err)
{
    const struct driver *d = &m->dev->driver;
    int limit =
        device_query(m->dev, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    if (limit > 0 && smem_bytes > (uint32_t)limit)
        return fail(err, FP4GEN_BAD_ARGUMENT, ERROR(DEVICE_SMEM), entry, smem_bytes,
                    limit);
    fp4gen_status status = device_enter(m->dev, err);
    if (status)
        return status;
    CUresult r = d->cuModuleGetFunction(out, m->module, entry);
    const bool found = r == CUDA_SUCCESS;
    if (found)
        r = d->cuFuncSetAttribute(*out, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                  (int)smem_bytes);
    device_leave(m->dev);
    if (r == CUDA_ERROR_NOT_FOUND)
        return fail(err, FP4GEN_BAD_ARGUMENT, ERROR(NO_ENTRY), entry);
    if (r)
        return fail_cuda(d, err, FP4GEN_LAUNCH_FAILED, r,
                         found ? "reserving shared memory for" : "looking for", entry);
    return FP4GEN_OK;
}

fp4gen_status module_launch(const fp4gen_module *m, CUfunction function,
                            const fp4gen_launch *l, fp4gen_error *err)
{
    const struct driver *d = &m->dev->driver;
    CUlaunchAttribute cluster;
    memset(&cluster, 0, sizeof cluster);
    cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    cluster.value.clusterDim.x = l->cluster[0];
    cluster.value.clusterDim.y = l->cluster[1];
    cluster.value.clusterDim.z = l->cluster[2];
    CUlaunchConfig config;
    memset(&config, 0, sizeof config);
    config.gridDimX = l->grid[0];
    config.gridDimY = l->grid[1];
    config.gridDimZ = l->grid[2];
    config.blockDimX = l->block[0];
    config.blockDimY = l->block[1];
    config.blockDimZ = l->block[2];
    config.sharedMemBytes = l->smem_bytes;
    config.hStream = (CUstream)l->stream;
    if (l->cluster[0]) {
        config.attrs = &cluster;
        config.numAttrs = 1;
    }
    fp4gen_status status = device_enter(m->dev, err);
    if (status)
        return status;
    CUresult r = d->cuLaunchKernelEx(&config, function, l->params, NULL);
    device_leave(m->dev);
    if (r)
        return fail_cuda(d, err, FP4GEN_LAUNCH_FAILED, r, "launching", l->entry);
    return FP4GEN_OK;
}

static fp4gen_status check_shape(const fp4gen_launch *l, fp4gen_error *err)
{
    const uint32_t *c = l->cluster;
    bool clustered = c[0] || c[1] || c[2];
    for (int i = 0; i < 3; i++) {
        if (l->grid[i] == 0 || l->block[i] == 0)
            return fail(err, FP4GEN_BAD_ARGUMENT, ERROR(LAUNCH_SHAPE), l->entry,
                        l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1],
                        l->block[2]);
        if (clustered && (c[i] == 0 || l->grid[i] % c[i] != 0))
            return fail(err, FP4GEN_BAD_ARGUMENT, ERROR(LAUNCH_CLUSTER), l->entry, c[0],
                        c[1], c[2], l->grid[0], l->grid[1], l->grid[2]);
    }
    return FP4GEN_OK;
}

fp4gen_status fp4gen_module_launch(fp4gen_module *m, const fp4gen_launch *l,
                                   fp4gen_error *err)
{
    if (!m || !l || !l->entry)
        return fail(err, FP4GEN_BAD_ARGUMENT, ERROR(NULL_ARGUMENT),
                    "fp4gen_module_launch");
    fp4gen_status status = check_shape(l, err);
    if (status)
        return status;
    CUfunction function = NULL;
    status = module_function(m, l->entry, l->smem_bytes, &function, err);
    if (status)
        return status;
    return module_launch(m, function, l, err);
}
