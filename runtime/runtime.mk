# runtime.mk - what the runtime's tests need beyond the general rules.

# t_runtime asks two drivers that run nothing: a current one and one from before tensor
# maps.  They carry the SONAME of the real one.
FAKE_DRIVERS = $(B)/tests/fake/libcuda.so.1 $(B)/tests/fake-old/libcuda.so.1
$(B)/tests/fake-old/libcuda.so.1: FAKE_DEFS = -DOLD
$(FAKE_DRIVERS): tests/fake_libcuda.c tests/fake_libcuda.h
	@mkdir -p $(@D)
	$(Q)$(CC) $(WARN) $(OPT) -D_POSIX_C_SOURCE=200809L -I. $(CUDA_CFLAGS) $(FAKE_DEFS) \
	    -fPIC -shared -fvisibility=hidden -Wl,-soname,libcuda.so.1 -o $@ $<
$(B)/tests/t_runtime $(B)/tests/t_run: | $(FAKE_DRIVERS)
$(B)/tests/t_runtime $(B)/tests/t_manifest $(B)/tests/t_run: $(B)/tests/kernel_text.o

# One program of a real sm_90 GPU.  It is built from its sources in one go, without
# the preflight: a machine with such a GPU needs cuda.h and a compiler, and no Lua.
H200_SRCS = tests/h200/main.c tests/h200/tma_copy.c $(RUNTIME_SRCS) core/target.c
$(B)/tests/h200/tma_copy: $(H200_SRCS) tests/h200/tma_copy.h $(wildcard runtime/*.h core/*.h core/*.def)
	@mkdir -p $(@D)
	$(Q)$(CC) $(filter-out -MMD -MP,$(ALL_CFLAGS)) $(CUDA_CFLAGS) -o $@ $(H200_SRCS) \
	    $(ALL_LDFLAGS) -ldl
.PHONY: h200-test
h200-test: $(B)/tests/h200/tma_copy
	@$< $(if $(DRIVER),--driver $(DRIVER)) tests/h200/tma_copy.ptx
