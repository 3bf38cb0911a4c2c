# emu.mk - what the emulator needs beside the rules of the Makefile, which includes it.

# As with the real driver, what is once loaded stays: handles outlive a dlclose.
$(B)/lib/emu/libcuda.so.1: ALL_LDFLAGS += -Wl,-z,nodelete

# The script is an input of the link: it is among the library's prerequisites.
$(B)/lib/emu/libcuda.so.1: $(B)/emu/exports.ld
$(B)/emu/exports.ld: core/driver.def emu/exports.awk
	@mkdir -p $(@D)
	$(Q)LC_ALL=C awk -f emu/exports.awk core/driver.def > $@

# Some programs open libcuda.so.
$(B)/lib/emu/libcuda.so: | $(B)/lib/emu/libcuda.so.1
	$(Q)ln -sf libcuda.so.1 $@
tests: $(B)/lib/emu/libcuda.so
ifeq ($(VARIANT),release)
all: lib/emu/libcuda.so
lib/emu/libcuda.so: | parts
	$(Q)mkdir -p $(@D) && ln -sf libcuda.so.1 $@
endif

# Tests that run PTX below the driver API share a frame.
$(addprefix $(B)/tests/,t_tma t_tmap_edit t_pair t_mma_kinds t_wgmma t_mma_warp t_bulk t_tcgen05 t_tcmma t_choice): \
    $(B)/tests/emu_run.o

# Tests of single instructions share a frame as well.
EMU_INSN_TESTS = $(addprefix $(B)/tests/,t_emu_int t_emu_float t_emu_cvt t_approx)
$(EMU_INSN_TESTS): $(B)/tests/emu_insn.o
$(EMU_INSN_TESTS) $(addprefix $(B)/tests/,t_emu_files t_checks): \
    $(B)/tests/emu_run.o
$(addprefix $(B)/tests/,t_emu_files t_checks): $(B)/tests/emu_script.o
