#include "runtime/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const code_names[] = {
#define DIAG(id, code, text) code,
#include "core/diag.def"
#undef DIAG
};

fp4gen_status fail(fp4gen_error *err, fp4gen_status status, enum diag_code code,
                   const char *fmt, ...)
{
    if (!err)
        return status;
    err->status = status;
    err->cuda = 0;
    snprintf(err->code, sizeof err->code, "%s", code_names[code]);
    va_list args;
    va_start(args, fmt);
    vsnprintf(err->text, sizeof err->text, fmt, args);
    va_end(args);
    return status;
}

void fail_note(fp4gen_error *err, const char *fmt, ...)
{
    if (!err)
        return;
    size_t used = strlen(err->text);
    if (used + 2 >= sizeof err->text)
        return;
    err->text[used++] = '\n';
    va_list args;
    va_start(args, fmt);
    vsnprintf(err->text + used, sizeof err->text - used, fmt, args);
    va_end(args);
}
