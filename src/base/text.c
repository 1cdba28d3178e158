/* neap/text.h: sizes and durations as people write and read them. */
#include "base/checked.h"
#include "base/fail.h"
#include "base/json.h"

#include <neap/text.h>

#include <ctype.h>
#include <math.h>
#include <stdio.h>
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

/* A whole number of units, exactly; false if it is written otherwise, or is too large. */
static bool parse_whole(const char *text, int64_t factor, const char *end, int64_t *bytes)
{
    int64_t number = 0;
    for (; text < end && isdigit((unsigned char)*text); text++)
        if (!neap_mul_i64(number, 10, &number) || !neap_add_i64(number, *text - '0', &number))
            return false;
    return text == end && neap_mul_i64(number, factor, bytes);
}

neap_status neap_bytes_parse(const char *text, int64_t *bytes, neap_diag *diag)
{
    const char *end;
    double number;
    if (!neap_json_parse_number(text, &end, &number) || number < 0 || text[0] == '-')
        return fail_size(text, diag);
    const char *number_end = end;
    while (*end == ' ')
        end++;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcasecmp(end, units[i].suffix) != 0)
            continue;
        if (parse_whole(text, (int64_t)units[i].factor, number_end, bytes))
            return NEAP_OK;
        /* 1.001k is 1000.9999... in binary: a number that is whole except for rounding is whole. */
        double size = number * units[i].factor, whole = round(size);
        size = fabs(size - whole) <= size * 1e-14 ? whole : floor(size);
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
    double size = fabs(value);
    int decimals = size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
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
    else if (size < 0.9995e-6)
        format_scaled(seconds * 1e9, "ns", buffer, capacity);
    else if (size < 0.9995e-3)
        format_scaled(seconds * 1e6, "us", buffer, capacity);
    else if (size < 0.9995)
        format_scaled(seconds * 1e3, "ms", buffer, capacity);
    else if (size < 600)
        format_scaled(seconds, "s", buffer, capacity);
    else if (size < 360000)
        snprintf(buffer, capacity, "%s%d h %02d min", seconds < 0 ? "-" : "", (int)(size / 3600),
                 (int)(fmod(size, 3600) / 60));
    else
        snprintf(buffer, capacity, "%.3g s", seconds);
    return buffer;
}
