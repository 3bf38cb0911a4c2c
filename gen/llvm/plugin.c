#include "gen/llvm/plugin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <llvm-c/Analysis.h>
#include <llvm-c/Core.h>
#include <llvm-c/Error.h>
#include <llvm-c/ErrorHandling.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <llvm/Config/llvm-config.h>

#include "gen/llvm/emit.h"
#include "gen/llvm/splice.h"

#if LLVM_VERSION_MAJOR != 22
#error "fp4gen lowers epilogues with LLVM 22, no other version"
#endif

/* Vectorisers are left out: pairs are made where they pay, see emit_arith(). */
#define PASSES                                                                         \
    "function(early-cse,instcombine<no-verify-fixpoint>,gvn,simplifycfg,adce)"
#define TRIPLE "nvptx64-nvidia-cuda"

static void (*tell_fatal)(const char *text);

static void on_fatal(const char *text)
{
    tell_fatal(text);
}

struct request {
    const struct target *target;
    int ptx_version, chunk, step;
    char prefix[16];
    struct emit_names names;
    const struct expr *e;
};

static bool read_request(struct arena *a, const char *text, struct request *r)
{
    char name[16];
    int used = 0;
    struct emit_names *n = &r->names;
    if (sscanf(text,
               "target %15s ptx %d chunk %d step %d prefix %15s names %31s %31s %31s "
               "%31s %31s "
               "%31s%n",
               name, &r->ptx_version, &r->chunk, &r->step, r->prefix, n->v, n->alpha,
               n->row, n->col, n->m, n->n, &used) != 11)
        return false;
    r->target = target_find(name);
    r->e = expr_read(a, text + used + 1);
    return r->target && r->e;
}

/* Takes LLVM's message into the arena. */
static const char *keep_message(struct arena *a, char *text)
{
    const char *kept = arena_strdup(a, text ? text : "no reason given");
    LLVMDisposeMessage(text);
    return kept;
}

static LLVMTargetMachineRef open_machine(struct arena *a, const struct request *r,
                                         const char **error)
{
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    LLVMTargetRef target;
    char *message = NULL;
    if (LLVMGetTargetFromTriple(TRIPLE, &target, &message)) {
        *error = keep_message(a, message);
        return NULL;
    }
    const char *features = arena_printf(a, "+ptx%d", r->ptx_version);
    return LLVMCreateTargetMachine(target, TRIPLE, r->target->name, features,
                                   LLVMCodeGenLevelAggressive, LLVMRelocDefault,
                                   LLVMCodeModelDefault);
}

static bool optimise(struct arena *a, struct emit *em, LLVMTargetMachineRef machine,
                     const char **error)
{
    char *message = NULL;
    if (LLVMVerifyModule(em->module, LLVMReturnStatusAction, &message)) {
        *error = keep_message(a, message);
        return false;
    }
    LLVMDisposeMessage(message);
    LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    LLVMErrorRef failed = LLVMRunPasses(em->module, PASSES, machine, options);
    LLVMDisposePassBuilderOptions(options);
    if (!failed)
        return true;
    char *text = LLVMGetErrorMessage(failed);
    *error = arena_strdup(a, text);
    LLVMDisposeErrorMessage(text);
    return false;
}

/* "block NAME insns N rare N words N regs BYTES body BYTES\n", then both texts. */
static bool add_block(struct arena *a, const char *ptx, const char *name,
                      const char *prefix, bool constants, struct buf *reply)
{
    struct splice s;
    if (!splice_function(a, ptx, name, prefix, constants, &s))
        return false;
    buf_printf(reply, "block %s insns %d rare %d words %d regs %zu body %zu\n", name,
               s.insns, s.rare_insns, s.live_words, s.regs.bytes, s.body.bytes);
    buf_add(reply, s.regs.data, s.regs.bytes);
    buf_add(reply, s.body.data, s.body.bytes);
    return true;
}

static bool lower(struct arena *a, const struct request *r, struct buf *reply,
                  const char **error)
{
    LLVMTargetMachineRef machine = open_machine(a, r, error);
    if (!machine)
        return false;
    struct emit em = {.arena = a,
                      .e = r->e,
                      .target = r->target,
                      .chunk = r->chunk,
                      .step = r->step,
                      .prefix = r->prefix,
                      .names = &r->names};
    emit_open(&em);
    LLVMSetTarget(em.module, TRIPLE);
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine);
    LLVMSetModuleDataLayout(em.module, layout);
    LLVMDisposeTargetData(layout);
    for (int b = 0; b < EMIT_BLOCK_COUNT; b++)
        emit_function(&em, (enum emit_block)b);
    LLVMMemoryBufferRef ptx = NULL;
    char *message = NULL;
    bool ok = optimise(a, &em, machine, error);
    if (ok && LLVMTargetMachineEmitToMemoryBuffer(machine, em.module, LLVMAssemblyFile,
                                                  &message, &ptx)) {
        *error = keep_message(a, message);
        ok = false;
    }
    if (ok) {
        const char *text =
            arena_strndup(a, LLVMGetBufferStart(ptx), LLVMGetBufferSize(ptx));
        LLVMDisposeMemoryBuffer(ptx);
        buf_printf(reply, "hoists");
        for (int i = 0; i < em.hoist_count; i++)
            buf_printf(reply, " %d",
                       em.hoists[i].node || em.hoists[i].inverse ? 32 : 64);
        buf_puts(reply, "\n");
        for (int b = 0; ok && b < EMIT_BLOCK_COUNT; b++)
            ok = add_block(a, text, emit_block_name((enum emit_block)b), r->prefix,
                           r->step == 0, reply);
        if (!ok)
            *error = "its PTX has a form that is not understood";
    }
    emit_close(&em);
    LLVMDisposeTargetMachine(machine);
    return ok;
}

static char *copy(const char *text, size_t bytes)
{
    char *p = malloc(bytes + 1);
    if (p) {
        memcpy(p, text, bytes);
        p[bytes] = '\0';
    }
    return p;
}

EXPORTED lower_entry fp4gen_lower;

char *fp4gen_lower(const char *request, size_t *reply_bytes, char **error,
                   void (*fatal)(const char *text))
{
    unsigned major, minor, patch;
    LLVMGetVersion(&major, &minor, &patch);
    struct arena *a = arena_new();
    const char *reason = NULL;
    char *result = NULL;
    struct request r;
    struct buf reply;
    buf_init(&reply, a);
    tell_fatal = fatal;
    LLVMInstallFatalErrorHandler(on_fatal);
    if (major != 22)
        reason = arena_printf(a, "LLVM %u.%u is loaded, 22 is needed", major, minor);
    else if (!read_request(a, request, &r))
        reason = "the request is damaged";
    else if (lower(a, &r, &reply, &reason))
        result = copy(reply.data, reply.bytes);
    *reply_bytes = reply.bytes;
    if (!result)
        *error = copy(reason ? reason : "no reason given",
                      strlen(reason ? reason : "no reason given"));
    LLVMResetFatalErrorHandler();
    arena_free(a);
    return result;
}
