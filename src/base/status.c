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

/* Cuts off a UTF-8 character that is not complete at the end of a text. */
static void clip_character(char *text)
{
    size_t length = strlen(text), start = length;
    while (start > 0 && length - start < 3 && ((unsigned char)text[start - 1] & 0xc0) == 0x80)
        start--;
    if (start == 0)
        return;
    unsigned char lead = (unsigned char)text[start - 1];
    size_t needed = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
    if (length - (start - 1) < needed)
        text[start - 1] = '\0';
}

/* Whatever would break the line or the terminal becomes '?'. */
void neap_make_presentable(char *text)
{
    clip_character(text);
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
        diag->message[sizeof diag->message - 4] = '\0';
    neap_make_presentable(diag->message);
    if (length >= (int)sizeof diag->message)
        memcpy(diag->message + strlen(diag->message), "...", 4);
    return status;
}

neap_status neap_fail_no_memory(neap_diag *diag)
{
    return neap_fail(diag, NEAP_NO_MEMORY, "out of memory");
}
