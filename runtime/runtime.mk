# runtime.mk - libfp4gen.a, and what the runtime's tests need beyond the general rules.

# The one part of core that the runtime needs.
RUNTIME_CORE_SRC = core/target.c

# One object in which only fp4gen_* is left to link against, as in libfp4gen.so: names
# like `fail` belong to the program that uses the library.
LIBFP4GEN_O = $(B)/runtime/libfp4gen.o
$(LIBFP4GEN_O): $(patsubst %.c,$(B)/%.o,$(RUNTIME_SRCS) $(RUNTIME_CORE_SRC))
	$(Q)$(LD) -r -o $@ $^ && $(OBJCOPY) --localize-hidden $@
OBJCOPY = objcopy

# t_runtime asks two drivers that run nothing: a current one and one from before tensor
# maps.  They carry the SONAME of the real one.
FAKE_DRIVERS = $(B)/tests/fake/libcuda.so.1 $(B)/tests/fake-old/libcuda.so.1
$(B)/tests/fake-old/libcuda.so.1: FAKE_DEFS = -DOLD
$(FAKE_DRIVERS): tests/fake_libcuda.c tests/fake_libcuda.h
	@mkdir -p $(@D)
	$(Q)$(CC) $(WARN) $(OPT) -D_POSIX_C_SOURCE=200809L -I. $(CUDA_CFLAGS) $(FAKE_DEFS) \
	    -fPIC -shared -fvisibility=hidden -Wl,-soname,libcuda.so.1 -o $@ $<
$(B)/tests/t_runtime $(B)/tests/t_problem $(B)/tests/t_run: | $(FAKE_DRIVERS)
$(B)/tests/t_runtime $(B)/tests/t_problem: $(B)/tests/fake_driver.o
$(B)/tests/t_runtime $(B)/tests/t_problem $(B)/tests/t_manifest $(B)/tests/t_run $(B)/tests/t_run_expr: $(B)/tests/kernel_text.o

$(B)/tests/t_h200: $(B)/tests/h200/tma_copy.o
# The emulator is opened when the tests run.
$(B)/tests/t_conform: $(B)/tests/h200/conform.o
$(B)/tests/t_runtime_emu $(B)/tests/t_h200 $(B)/tests/t_conform: | $(B)/lib/emu/libcuda.so.1

# Programs for a real sm_90 GPU.  They are built from their sources in one go, without
# the preflight: a machine with such a GPU needs cuda.h and a compiler, and no Lua.
H200_SRCS = $(RUNTIME_SRCS) core/target.c
H200_TMA = tests/h200/main.c tests/h200/tma_copy.c
H200_CONFORM = tests/h200/conform_main.c tests/h200/conform.c
$(B)/tests/h200/tma_copy: $(H200_TMA)
$(B)/tests/h200/conform: $(H200_CONFORM)
$(B)/tests/h200/tma_copy $(B)/tests/h200/conform: $(H200_SRCS) $(wildcard tests/h200/*.h runtime/*.h core/*.h core/*.def)
	@mkdir -p $(@D)
	$(Q)$(CC) $(filter-out -MMD -MP,$(ALL_CFLAGS)) $(CUDA_CFLAGS) -o $@ $(filter %.c,$^) \
	    $(ALL_LDFLAGS) -ldl
.PHONY: h200-test h200-conform
h200-test: $(B)/tests/h200/tma_copy
	@$< $(if $(DRIVER),--driver $(DRIVER)) tests/h200/tma_copy.ptx
# RECORD=1 writes what the GPU answers into the tree, else it is compared with that.
h200-conform: $(B)/tests/h200/conform
	@$< $(if $(DRIVER),--driver $(DRIVER)) \
	    $(if $(RECORD),--record,--compare) tests/h200/conform_h200.txt
