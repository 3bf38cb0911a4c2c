# emu.mk - what the emulator needs beside the rules of the Makefile, which includes it.

# The script is an input of the link: it is among the library's prerequisites.
$(B)/lib/emu/libcuda.so.1: $(B)/emu/exports.ld
$(B)/emu/exports.ld: core/driver.def emu/exports.awk
	@mkdir -p $(@D)
	$(Q)LC_ALL=C awk -f emu/exports.awk core/driver.def > $@
