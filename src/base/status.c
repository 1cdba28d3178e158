#include "base/fail.h"

#include <neap/text.h>

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
        diag->message[sizeof diag->message - 4] = '\0';
    size_t kept = neap_string_clean(diag->message);
    if (length >= (int)sizeof diag->message)
        memcpy(diag->message + kept, "...", 4);
    return status;
}

neap_status neap_fail_no_memory(neap_diag *diag)
{
    return neap_fail(diag, NEAP_NO_MEMORY, "out of memory");
}
