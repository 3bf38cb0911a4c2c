# Sources of libfp4gen.  core/target.c is the one part of core that it needs.
RUNTIME_SRC = runtime/device.c runtime/driver.c runtime/error.c runtime/kernel.c \
              runtime/manifest.c runtime/module.c runtime/tensor_map.c
RUNTIME_CORE_SRC = core/target.c

# t_runtime asks two drivers that run nothing: a current one and one from before tensor
# maps.  They carry the SONAME of the real one.
FAKE_DRIVERS = $(B)/tests/fake/libcuda.so.1 $(B)/tests/fake-old/libcuda.so.1
$(B)/tests/fake-old/libcuda.so.1: FAKE_DEFS = -DOLD
$(FAKE_DRIVERS): tests/fake_libcuda.c tests/fake_libcuda.h
	@mkdir -p $(@D)
	$(Q)$(CC) $(WARN) $(OPT) -D_POSIX_C_SOURCE=200809L -I. $(CUDA_CFLAGS) $(FAKE_DEFS) \
	    -fPIC -shared -fvisibility=hidden -Wl,-soname,libcuda.so.1 -o $@ $<
$(B)/tests/t_runtime: | $(FAKE_DRIVERS)
$(B)/tests/t_runtime $(B)/tests/t_manifest: $(B)/tests/kernel_text.o
