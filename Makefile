# fp4gen - `make demo` and `make test` do everything on a fresh Debian machine.
#
# Variables: MODE=release|debug, SAN=address,undefined, CC, CFLAGS (appended), V=1,
# WERROR=1 (as CI builds).  Objects go to build/<mode>/.

CC      = gcc
MODE    = release
SAN     =
V       =
Q       = $(if $(V),,@)

VARIANT = $(MODE)$(if $(SAN),-san)$(if $(filter-out gcc,$(CC)),-$(notdir $(CC)))
B       = build/$(VARIANT)

WARN    = -std=c17 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes \
          -Wmissing-prototypes -Wvla -Wundef -Wformat=2 \
          $(if $(findstring clang,$(CC)),-Wno-format-nonliteral) # texts of diag.def
OPT     = $(if $(filter debug,$(MODE)),-O0 -g,-O2 -g)
ALL_CFLAGS = $(WARN) $(OPT) $(if $(WERROR),-Werror) -D_POSIX_C_SOURCE=200809L -I. -MMD -MP \
          -fPIC -fvisibility=hidden -ffp-contract=off -pthread \
          $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer) \
          $(CFLAGS)
ALL_LDFLAGS = -pthread $(if $(SAN),-fsanitize=$(SAN)) $(LDFLAGS)

LUA_CFLAGS = $(shell pkg-config --cflags lua5.4 2>/dev/null)
LUA_LIBS   = $(shell pkg-config --libs lua5.4 2>/dev/null)
CUDA_INC   = $(firstword $(wildcard $(CUDA_HOME)/include/cuda.h /usr/local/cuda/include/cuda.h \
             .venv/lib/python3*/site-packages/nvidia/*/include/cuda.h))
CUDA_CFLAGS = $(if $(CUDA_INC),-isystem $(dir $(CUDA_INC)))

# --- what is built ---------------------------------------------------------------------
# gen/gen.mk, emu/emu.mk and runtime/runtime.mk may add rules: flags of one file, sources
# that are generated (GEN_EXTRA_OBJS, EMU_EXTRA_OBJS, RUNTIME_EXTRA_OBJS).

.DEFAULT_GOAL := all
CORE_SRCS    = $(wildcard core/*.c)
GEN_SRCS     = $(filter-out gen/main.c,$(wildcard gen/*.c))
EMU_SRCS     = $(wildcard emu/*.c)
RUNTIME_SRCS = $(wildcard runtime/*.c)
TEST_SRCS    = $(wildcard tests/t_*.c)
-include gen/gen.mk gen/lower.mk emu/emu.mk runtime/runtime.mk

obj          = $(patsubst %.c,$(B)/%.o,$(1))
CORE_OBJS    = $(call obj,$(CORE_SRCS))
GEN_OBJS     = $(call obj,$(GEN_SRCS)) $(GEN_EXTRA_OBJS)
EMU_OBJS     = $(call obj,$(EMU_SRCS)) $(EMU_EXTRA_OBJS)
RUNTIME_OBJS = $(call obj,$(RUNTIME_SRCS)) $(RUNTIME_EXTRA_OBJS)
TESTS        = $(patsubst tests/%.c,$(B)/tests/%,$(TEST_SRCS))
ARCHIVES     = $(B)/gen.a $(B)/runtime.a $(B)/emu.a $(B)/core.a
LINK_ALL     = -Wl,--start-group $(1) -Wl,--end-group $(LUA_LIBS) -lm -ldl

# A variant is complete in $(B): bin/gen finds ../lib there as it does in the tree.
PARTS        = bin/gen bin/gen-emu lib/libfp4gen.so lib/libfp4gen.a lib/emu/libcuda.so.1 \
               $(LOWER_PARTS)
PREFIX       = /usr/local
JOBS         = $(shell nproc 2>/dev/null || echo 2)
PYTHON       = .venv/bin/python
CHECKED_C    = $(sort $(wildcard $(foreach d,core gen gen/llvm emu runtime tests tests/h200 tune bench,\
               $(d)/*.c $(d)/*.h)))

.PHONY: all parts tests preflight deps demo demo-real test run-tests check-all bench \
        golden fmt fmt-check tidy fuzz install clean help
.SECONDARY:
.DELETE_ON_ERROR:

all: parts  ## bin/gen, bin/gen-emu, lib/libfp4gen.{so,a}, lib/emu/libcuda.so.1
ifeq ($(VARIANT),release)
	$(Q)mkdir -p lib/emu
	$(Q)for f in $(PARTS); do cmp -s $(B)/$$f $$f || \
	    { cp $(B)/$$f $$f.new && mv $$f.new $$f; } || exit 1; done
endif

parts: preflight $(addprefix $(B)/,$(PARTS))

preflight:
	@if ! pkg-config --exists lua5.4 || [ ! -e "$(CUDA_INC)" ]; then \
	    echo "Lua 5.4 or the CUDA headers are missing: run make deps" >&2; exit 1; fi

$(B)/%.o: %.c | preflight
	@mkdir -p $(@D)
	@$(if $(V),,echo "cc    $<")
	$(Q)$(CC) $(ALL_CFLAGS) $(LUA_CFLAGS) $(CUDA_CFLAGS) -c -o $@ $<

$(B)/core.a: $(CORE_OBJS)
$(B)/gen.a: $(GEN_OBJS)
$(B)/emu.a: $(EMU_OBJS)
$(B)/runtime.a: $(RUNTIME_OBJS)
$(B)/lib/libfp4gen.a: $(LIBFP4GEN_O)
$(ARCHIVES) $(B)/lib/libfp4gen.a:
	@mkdir -p $(@D)
	@rm -f $@
	$(Q)$(AR) rcs $@ $^

# `gen run --check` compares with the independent reference of the tests.
$(B)/bin/gen: $(B)/gen/main.o $(B)/tests/ref.o $(B)/gen.a $(B)/runtime.a $(B)/core.a
	@mkdir -p $(@D)
	@$(if $(V),,echo "link  $@")
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $(call LINK_ALL,$^)

$(B)/bin/gen-emu: bin/gen-emu.in
	@mkdir -p $(@D)
	$(Q)cp $< $@ && chmod +x $@

# -z defs: a library that lacks a symbol fails here, not at a user's.  clang leaves the
# sanitizers' own symbols to the program.
SO_FLAGS = -shared $(if $(SAN),,-Wl,-z,defs) -Wl,-soname,$(@F)

$(B)/lib/libfp4gen.so: $(RUNTIME_OBJS) $(B)/core.a
	@mkdir -p $(@D)
	@$(if $(V),,echo "link  $@")
	$(Q)$(CC) $(ALL_LDFLAGS) $(SO_FLAGS) -o $@ $^ -lm -ldl

$(B)/lib/emu/libcuda.so.1: $(EMU_OBJS) $(B)/core.a
	@mkdir -p $(@D)
	@$(if $(V),,echo "link  $@")
	$(Q)$(CC) $(ALL_LDFLAGS) $(SO_FLAGS) -o $@ $^ -lm -ldl

tests: parts $(TESTS)

# NVIDIA's host conversions, the second opinion of t_ref, are C++ in the toolkit.
CXX      = g++
NV_HDRS  = $(and $(CUDA_INC),$(wildcard $(dir $(CUDA_INC))cuda_fp4.h),\
           $(wildcard $(dir $(CUDA_INC))nv/target))
NV_CODECS = $(B)/tests/nv_codecs$(if $(and $(NV_HDRS),$(shell command -v $(CXX))),,_none).o
$(B)/tests/nv_codecs.o: tests/nv_codecs.cpp tests/nv_codecs.h
	@mkdir -p $(@D)
	@$(if $(V),,echo "c++   $<")
	$(Q)$(CXX) -std=c++17 -O1 -fPIC -fno-exceptions -fno-rtti -I. $(CUDA_CFLAGS) -c -o $@ $<
$(B)/tests/t_ref $(B)/tests/t_lower_fp4 $(B)/tests/t_fp4_many $(B)/tests/t_quantize: $(NV_CODECS)
$(B)/tests/t_numeric: $(B)/tests/device_gemm.o

$(B)/tests/%: $(B)/tests/%.o $(B)/tests/main.o $(B)/tests/ref.o $(ARCHIVES)
	@$(if $(V),,echo "link  $@")
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $(call LINK_ALL,$^) -lcmocka

# --- what is run -----------------------------------------------------------------------

deps:  ## install what is missing (Debian packages; .venv from PyPI)
	@scripts/deps.sh

demo: deps  ## generate the 128x256 kernel, run it, check it, say how fast
	@$(MAKE) --no-print-directory -j$(JOBS) all
	@scripts/demo.sh

demo-real:  ## a feed-forward matrix of a sentence encoder on real sentences
	@scripts/deps.sh demo
	@$(MAKE) --no-print-directory -j$(JOBS) all
	@$(PYTHON) python/demo_real.py

# By default what CI runs: everything built by gcc and by clang, run plain and under the
# sanitizers.  With SAN or CC given, that variant alone.  T=word picks test files.
ONE_VARIANT = $(filter command,$(foreach v,SAN CC MODE,$(origin $(v))))
SUBMAKE     = $(MAKE) --no-print-directory -j$(JOBS)
SAN_MAKE    = CC=clang SAN=address,undefined WERROR=1

test: deps  ## all tests; ends with "N passed, N failed"; T=word picks files
ifeq ($(ONE_VARIANT),)
	@$(SUBMAKE) WERROR=1 all tests
	@$(SUBMAKE) $(SAN_MAKE) tests
	@$(PYTHON) tests/run.py -j$(JOBS) $(T) build/release build/release-san-clang
else
	@$(SUBMAKE) tests
	@$(PYTHON) tests/run.py -j$(JOBS) $(T) $(B)
endif

check-all:  ## test, and before it format, clang-tidy and fuzzing
	@scripts/deps.sh tools
	@$(SUBMAKE) fmt-check tidy
	@$(SUBMAKE) WERROR=1 all tests
	@$(SUBMAKE) $(SAN_MAKE) tests fuzz
	@FP4GEN_TEST_ALL=1 $(PYTHON) tests/run.py -j$(JOBS) build/release build/release-san-clang

bench: deps  ## measure the generator and the emulator; writes bench/results.json
	@$(SUBMAKE) all build/release/bench/gen_rate build/release/bench/emu_rate
	@$(PYTHON) bench/run.py
	@$(PYTHON) bench/epilogue.py

golden: deps  ## rewrite tests/golden; review the diff like code
	@$(SUBMAKE) all
	@GOLDEN_UPDATE=1 $(PYTHON) -m pytest -q -p no:cacheprovider tests/test_golden.py

fmt:  ## clang-format the C files in place
	$(Q)clang-format -i $(CHECKED_C)

fmt-check:
	$(Q)clang-format --dry-run -Werror $(CHECKED_C)

TIDY_FLAGS = $(filter-out -MMD -MP,$(ALL_CFLAGS)) $(LUA_CFLAGS) $(CUDA_CFLAGS) $(LLVM_CFLAGS)
tidy: preflight  ## clang-tidy over all C files
	$(Q)printf '%s\n' $(filter %.c,$(CHECKED_C)) | xargs -P $(JOBS) -n 4 \
	    sh -c 'clang-tidy --quiet "$$@" -- $(TIDY_FLAGS)' tidy

$(B)/bench/%: $(B)/bench/%.o $(ARCHIVES)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $(call LINK_ALL,$^)

# Each tests/fuzz_NAME.c mutates the inputs in its own seed list for some seconds.
FUZZERS = $(patsubst tests/%.c,$(B)/tests/%,$(filter-out tests/fuzz_main.c,$(wildcard tests/fuzz_*.c)))
# (Static: else the rule for tests is taken while fuzz_main.o is not there.)
$(FUZZERS): $(B)/tests/fuzz_%: $(B)/tests/fuzz_%.o $(B)/tests/fuzz_main.o $(ARCHIVES)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $(call LINK_ALL,$^)

fuzz: $(FUZZERS)
	$(Q)for f in $(FUZZERS); do echo "fuzz  $$f"; $$f $(FUZZ_S) || exit 1; done

install: all  ## to $(DESTDIR)$(PREFIX)
	install -d "$(DESTDIR)$(PREFIX)/bin" "$(DESTDIR)$(PREFIX)/include" \
	    "$(DESTDIR)$(PREFIX)/lib/fp4gen/emu"
	install -m 755 bin/gen bin/gen-emu "$(DESTDIR)$(PREFIX)/bin"
	install -m 644 runtime/fp4gen.h emu/fp4emu.h "$(DESTDIR)$(PREFIX)/include"
	install -m 644 lib/libfp4gen.a lib/libfp4gen.so "$(DESTDIR)$(PREFIX)/lib"
	install -m 644 lib/emu/libcuda.so.1 "$(DESTDIR)$(PREFIX)/lib/fp4gen/emu"
	$(if $(LOWER_PARTS),install -m 644 $(LOWER_PARTS) "$(DESTDIR)$(PREFIX)/lib/fp4gen")

clean:  ## remove what was built; .venv stays
	rm -rf build lib $(filter bin/%,$(PARTS))

help:  ## this list
	@echo "make [TARGET] [MODE=debug] [SAN=address,undefined] [CC=clang] [V=1]"
	@echo "What is built lies in build/VARIANT (release-clang with CC=clang), in bin/ and lib/"
	@echo "below it; ./bin and ./lib hold the variant release alone."
	@sed -n 's/^\([a-z-]*\):.*##/\1 \t/p' Makefile | expand -t 12

-include $(shell find $(B) -name '*.d' 2>/dev/null)
