#include "base/fail.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *neap_version(void)
{
    return NEAP_VERSION_STRING;
}

const char *neap_status_name(neap_status status)
{
    switch (status) {
    case NEAP_OK:
        return "ok";
    case NEAP_INVALID:
        return "invalid";
    case NEAP_NO_MEMORY:
        return "no_memory";
    case NEAP_IO:
        return "io";
    case NEAP_UNSUPPORTED:
        return "unsupported";
    case NEAP_INTERNAL:
        return "internal";
    }
    return "unknown";
}

/* Messages quote names from files: whatever would break the line or the terminal becomes '?'. */
static void make_one_line(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            *text = '?';
}

neap_status neap_fail(neap_diag *diag, neap_status status, const char *format, ...)
{
    if (!diag)
        return status;
    diag->status = status;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(diag->message, sizeof diag->message, format, arguments);
    va_end(arguments);
    if (length >= (int)sizeof diag->message)
        memcpy(diag->message + sizeof diag->message - 4, "...", 4);
    make_one_line(diag->message);
    return status;
}

neap_status neap_fail_no_memory(neap_diag *diag)
{
    return neap_fail(diag, NEAP_NO_MEMORY, "out of memory");
}
