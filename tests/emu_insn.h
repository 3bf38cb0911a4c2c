/* emu_insn.h - one PTX instruction, for many sets of operands, on the emulator.
 *
 *     struct emu_insn i = {"add.s32 %0, %1, %2;", "rrr"};
 *     emu_insn_run(&i, count, operands, results);
 *
 * %0 is written, %1 to %4 are read.  One letter an operand says what it is: p
 * predicate, b 8, h 16, r 32, d 64 bits.  It runs twice: for whole warps, and under a
 * guard for two lanes of three; lanes that the guard leaves out must keep what was in
 * the register. */
#ifndef FP4GEN_EMU_INSN_H
#define FP4GEN_EMU_INSN_H

#include <stddef.h>
#include <stdint.h>

#define EMU_INSN_SOURCES 4

struct emu_insn {
    const char *text, *types;
};

/* operands[i][k] is source k+1 of thread i.  Fails the test when it does not run. */
void emu_insn_run(const struct emu_insn *insn, size_t count,
                  const uint64_t operands[][EMU_INSN_SOURCES], uint64_t *results);

/* The same with FP4EMU_APPROX=perturb. */
void emu_insn_run_perturbed(const struct emu_insn *insn, uint64_t seed, size_t count,
                            const uint64_t operands[][EMU_INSN_SOURCES],
                            uint64_t *results);

/* All combinations of `values` in as many sources as the instruction has (shift amounts
 * and the like from `last` for the last source, when it is not NULL).  The caller frees
 * *operands. */
size_t emu_insn_product(const struct emu_insn *insn, const uint64_t *values,
                        size_t value_count, const uint64_t *last, size_t last_count,
                        uint64_t (**operands)[EMU_INSN_SOURCES]);

/* Runs the product and compares with `want`, which gets the sources. */
typedef uint64_t emu_want(const uint64_t *source);
void emu_insn_check(const char *file, int line, const struct emu_insn *insn,
                    const uint64_t *values, size_t value_count, const uint64_t *last,
                    size_t last_count, emu_want *want);

#endif
