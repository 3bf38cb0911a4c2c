/* fake_driver.h - the runtime on the driver that only takes notes. */
#ifndef FP4GEN_FAKE_DRIVER_H
#define FP4GEN_FAKE_DRIVER_H

#include "core/base.h"
#include "runtime/fp4gen.h"
#include "tests/fake_libcuda.h"

/* The fake driver below the directory of this program. */
const char *fake_path(struct arena *a, const char *which);
/* From now on libcuda.so.1 is the fake one, as it carries that SONAME. */
void load_fake(const char *which);
/* What it was asked. */
struct fake *calls(void);
fp4gen_device *open_fake(void);
/* Of the lines of a manifest. */
fp4gen_kernel *load_fake_kernel(fp4gen_device *dev, const char *manifest);
fp4gen_kernel *load_kernel(fp4gen_device *dev);
/* A call that is right for load_kernel(). */
fp4gen_gemm good_gemm(void);
/* fp4gen_run refuses with this code and these words; "": it launches. */
void check_run(fp4gen_kernel *k, fp4gen_gemm g, const char *code, const char *words);

#endif
