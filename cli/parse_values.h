/*
 * parse_values.h - parses option values. Each function returns false for any other text.
 */
#ifndef NEAP_CLI_PARSE_VALUES_H
#define NEAP_CLI_PARSE_VALUES_H

#include <stdbool.h>
#include <stdint.h>

bool cli_parse_integer(const char *text, int64_t *number);
bool cli_parse_unsigned(const char *text, uint64_t *number);
/* Decimal digits, perhaps a fraction and an exponent; never inf, nan or hexadecimal. */
bool cli_parse_real(const char *text, double *number);
/* "90", "90s", "10us", "5ms", "2min", "1.5h": not negative. */
bool cli_parse_seconds(const char *text, double *seconds);
/* "50%": 0.5, above 0. */
bool cli_parse_percent(const char *text, double *share);
/* "12.2GB/s", "12e9": bytes per second, above 0. */
bool cli_parse_bandwidth(const char *text, double *bandwidth);
/* "416" sets both, "416x608" height and width. */
bool cli_parse_image(const char *text, int64_t *height, int64_t *width);

#endif
