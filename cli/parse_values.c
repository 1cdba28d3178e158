#include "parse_values.h"

#include <errno.h>
#include <math.h>
#include <neap/text.h>
#include <stdlib.h>
#include <string.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool cli_parse_integer(const char *text, int64_t *number)
{
    const char *digits = *text == '-' || *text == '+' ? text + 1 : text;
    if (!is_digit(*digits))
        return false;
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno != 0 || *end != '\0')
        return false;
    *number = value;
    return true;
}

bool cli_parse_unsigned(const char *text, uint64_t *number)
{
    if (!is_digit(*text))
        return false;
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno != 0 || *end != '\0')
        return false;
    *number = value;
    return true;
}

/* A decimal number at the beginning of a text; what follows it, NULL if there is none. */
static const char *scan_real(const char *text, double *number)
{
    size_t length = strspn(text, "0123456789.+-eE");
    const char *digits = *text == '-' || *text == '+' ? text + 1 : text;
    if (length == 0 || !(is_digit(digits[0]) || (digits[0] == '.' && is_digit(digits[1]))) ||
        (digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X')))
        return NULL;
    char *end;
    *number = strtod(text, &end);
    return isfinite(*number) ? end : NULL;
}

bool cli_parse_real(const char *text, double *number)
{
    const char *rest = scan_real(text, number);
    return rest && *rest == '\0';
}

bool cli_parse_seconds(const char *text, double *seconds)
{
    static const struct {
        const char *name;
        double seconds;
    } UNITS[] = {{"", 1},      {"s", 1},    {"ms", 1e-3}, {"us", 1e-6},
                 {"ns", 1e-9}, {"min", 60}, {"h", 3600}};
    const char *rest = scan_real(text, seconds);
    if (!rest || *seconds < 0)
        return false;
    rest += *rest == ' ';
    for (size_t i = 0; i < sizeof UNITS / sizeof UNITS[0]; i++)
        if (strcmp(rest, UNITS[i].name) == 0) {
            *seconds *= UNITS[i].seconds;
            return true;
        }
    return false;
}

bool cli_parse_percent(const char *text, double *share)
{
    const char *rest = scan_real(text, share);
    if (!rest || !(*share > 0))
        return false;
    *share /= 100;
    rest += *rest == ' ';
    return strcmp(rest, "%") == 0;
}

/* A size per second. The number need not be an integer, so only the unit is parsed as a size. */
bool cli_parse_bandwidth(const char *text, double *bandwidth)
{
    char unit[32] = "1";
    const char *rest = scan_real(text, bandwidth);
    if (!rest || *bandwidth < 0)
        return false;
    rest += *rest == ' ';
    size_t length = strlen(rest);
    if (length >= 2 && strcmp(rest + length - 2, "/s") == 0)
        length -= 2;
    if (length >= sizeof unit - 1)
        return false;
    memcpy(unit + 1, rest, length);
    unit[length + 1] = '\0';
    int64_t bytes;
    if (neap_bytes_parse(unit, &bytes, NULL) != NEAP_OK ||
        (length > 0 && strchr("0123456789.", *rest)))
        return false;
    *bandwidth *= (double)bytes;
    double whole = round(*bandwidth); /* 12.2 GB is a whole number of bytes */
    if (fabs(whole - *bandwidth) < 1e-12 * whole)
        *bandwidth = whole;
    return isfinite(*bandwidth);
}

bool cli_parse_image(const char *text, int64_t *height, int64_t *width)
{
    char *end;
    errno = 0;
    if (!is_digit(*text))
        return false;
    *height = strtoll(text, &end, 10);
    *width = *height;
    if (errno != 0)
        return false;
    if (*end == '\0')
        return true;
    return *end == 'x' && is_digit(end[1]) && cli_parse_integer(end + 1, width);
}
