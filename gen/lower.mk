# lower.mk - libfp4gen-llvm.so, which gen opens when an epilogue needs LLVM.
#
# LLVM 22 and no other: without it everything is built but this library, and gen says so
# when it would need it.

LLVM_CONFIG  ?= $(firstword $(wildcard /usr/bin/llvm-config-22 /usr/lib/llvm-22/bin/llvm-config) \
                $(shell command -v llvm-config-22 || command -v llvm-config))
LLVM_VERSION := $(if $(LLVM_CONFIG),$(shell $(LLVM_CONFIG) --version 2>/dev/null))
LLVM_IS_22   := $(filter 22.%,$(LLVM_VERSION))
LOWER_LIB     = lib/libfp4gen-llvm.so
LOWER_PARTS   = $(if $(LLVM_IS_22),$(LOWER_LIB))

LLVM_CFLAGS   = $(if $(LLVM_IS_22),-isystem $(shell $(LLVM_CONFIG) --includedir))
LOWER_SRCS    = $(wildcard gen/llvm/*.c)
LOWER_OBJS    = $(patsubst %.c,$(B)/%.o,$(LOWER_SRCS) gen/expr.c gen/expr_output.c gen/expr_text.c)

ifeq ($(LLVM_IS_22),)
preflight: llvm-note
.PHONY: llvm-note
llvm-note:
	@echo "LLVM $(or $(LLVM_VERSION),is missing); 22 is needed for epilogues other than identity: run make deps" >&2
endif

$(B)/gen/llvm/%.o: gen/llvm/%.c | preflight
	@mkdir -p $(@D)
	@$(if $(V),,echo "cc    $<")
	$(Q)$(CC) $(ALL_CFLAGS) $(LLVM_CFLAGS) -c -o $@ $<

$(B)/$(LOWER_LIB): $(LOWER_OBJS) $(B)/core.a
	@mkdir -p $(@D)
	@$(if $(V),,echo "link  $@")
	$(Q)$(CC) $(ALL_LDFLAGS) $(SO_FLAGS) -o $@ $^ \
	    -L$(shell $(LLVM_CONFIG) --libdir) -lLLVM-22 -lm

# Tests that run epilogues as kernels share a frame.
$(B)/tests/t_expr $(B)/tests/t_lower $(B)/tests/t_lower_fp4 $(B)/tests/t_lower_cache: \
    $(B)/tests/lower_run.o $(B)/tests/emu_run.o
$(B)/tests/t_expr: $(B)/tests/kernel_text.o
QUANTIZE_TESTS = $(addprefix $(B)/tests/,t_quantize t_quantize_bad t_fp4_many t_fast_math)
$(QUANTIZE_TESTS): $(B)/tests/quantize_device.o $(B)/tests/lower_run.o $(B)/tests/emu_run.o
$(QUANTIZE_TESTS): | $(B)/lib/emu/libcuda.so.1
ifneq ($(LLVM_IS_22),)
$(QUANTIZE_TESTS) $(B)/tests/t_lower $(B)/tests/t_lower_fp4 $(B)/tests/t_epilogue \
    $(B)/tests/t_epilogue_forms: | $(B)/$(LOWER_LIB)
endif

$(B)/tests/t_epilogue $(B)/tests/t_epilogue_forms: $(B)/tests/epilogue_lab.o

$(B)/tests/t_lower_cache: | $(B)/tests/fake_llvm.so
$(B)/tests/fake_llvm.so: $(B)/tests/fake_llvm.o
	$(Q)$(CC) $(ALL_LDFLAGS) $(SO_FLAGS) -o $@ $^
