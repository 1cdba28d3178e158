/* neap/text.h: sizes and durations as people write and read them. */
#include "base/fail.h"

#include <neap/text.h>

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct {
    const char *suffix;
    double factor;
} units[] = {
    {"", 1},
    {"b", 1},
    {"k", 1e3},
    {"kb", 1e3},
    {"kib", 1024.0},
    {"m", 1e6},
    {"mb", 1e6},
    {"mib", 1048576.0},
    {"g", 1e9},
    {"gb", 1e9},
    {"gib", 1073741824.0},
    {"t", 1e12},
    {"tb", 1e12},
    {"tib", 1099511627776.0},
};

static neap_status fail_size(const char *text, neap_diag *diag)
{
    return neap_fail(diag, NEAP_INVALID,
                     "\"%s\" is not a size in bytes; write it like 8GiB, 1.5MB or 5e9", text);
}

neap_status neap_bytes_parse(const char *text, int64_t *bytes, neap_diag *diag)
{
    /* strtod alone would take "inf", "nan" and hexadecimal numbers. */
    if (!isdigit((unsigned char)text[0]) && !(text[0] == '.' && isdigit((unsigned char)text[1])))
        return fail_size(text, diag);
    if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X'))
        return fail_size(text, diag);
    char *end;
    double number = strtod(text, &end);
    while (*end == ' ')
        end++;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcasecmp(end, units[i].suffix) != 0)
            continue;
        double size = floor(number * units[i].factor);
        if (!(size < 9223372036854775808.0))
            return neap_fail(diag, NEAP_INVALID, "\"%s\" is more bytes than fit in 63 bits", text);
        *bytes = (int64_t)size;
        return NEAP_OK;
    }
    return fail_size(text, diag);
}

/* Three significant digits, as many after the point as that leaves. */
static void format_scaled(double value, const char *unit, char *buffer, size_t capacity)
{
    int decimals = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
    snprintf(buffer, capacity, "%.*f %s", decimals, value, unit);
}

char *neap_bytes_format(int64_t bytes, char *buffer, size_t capacity)
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = fabs((double)bytes);
    size_t unit = 0;
    while (unit < 6 && value >= 999.5) {
        value /= 1024;
        unit++;
    }
    if (unit == 0)
        snprintf(buffer, capacity, "%lld B", (long long)bytes);
    else
        format_scaled(bytes < 0 ? -value : value, names[unit], buffer, capacity);
    return buffer;
}

char *neap_seconds_format(double seconds, char *buffer, size_t capacity)
{
    double size = fabs(seconds);
    if (size == 0)
        snprintf(buffer, capacity, "0 s");
    else if (size < 1e-6)
        format_scaled(seconds * 1e9, "ns", buffer, capacity);
    else if (size < 1e-3)
        format_scaled(seconds * 1e6, "us", buffer, capacity);
    else if (size < 1)
        format_scaled(seconds * 1e3, "ms", buffer, capacity);
    else if (size < 600)
        format_scaled(seconds, "s", buffer, capacity);
    else if (size < 360000)
        snprintf(buffer, capacity, "%d h %02d min", (int)(size / 3600),
                 (int)(fmod(size, 3600) / 60));
    else
        snprintf(buffer, capacity, "%.3g s", seconds);
    return buffer;
}
