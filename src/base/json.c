#include "base/json.h"

#include "base/fail.h"
#include "base/file.h"
#include "base/utf8.h"

#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEEPEST 512 /* objects and arrays inside each other; nothing of ours passes 8 */

/* Skips a UTF-8 byte-order mark, which some editors write; refuses UTF-16, marked or not. */
static void check_encoding(json_reader *r)
{
    static const char utf16[][2] = {{'\xff', '\xfe'}, {'\xfe', '\xff'}, {'{', '\0'}, {'\0', '{'}};
    size_t length = (size_t)(r->end - r->text);
    for (size_t i = 0; i < sizeof utf16 / sizeof *utf16 && length >= 2; i++)
        if (memcmp(r->text, utf16[i], 2) == 0)
            neap_json_fail(r, "the text is in UTF-16; save it as UTF-8");
    if (length >= 3 && memcmp(r->text, "\xef\xbb\xbf", 3) == 0)
        r->text = r->at = r->text + 3;
}

void neap_json_init(json_reader *r, neap_allocator *allocator, const char *source, const char *text,
                    size_t length, neap_diag *diag)
{
    *r = (json_reader){.source = source,
                       .text = text,
                       .at = text,
                       .end = text + length,
                       .status = NEAP_OK,
                       .diag = diag};
    neap_text_init(&r->scratch, allocator);
    check_encoding(r);
}

void neap_json_open(json_reader *r, neap_allocator *allocator, const char *path, neap_diag *diag)
{
    char *text;
    size_t length;
    neap_status status = neap_file_read(allocator, path, &text, &length, diag);
    const char *source = strcmp(path, "-") == 0 ? "standard input" : path;
    neap_json_init(r, allocator, source, text ? text : "", length, diag);
    r->file_text = text;
    r->file_length = length;
    if (status != NEAP_OK)
        r->status = status;
}

void neap_json_clear(json_reader *r)
{
    neap_release(r->scratch.allocator, r->file_text, r->file_length + 1);
    neap_text_clear(&r->scratch);
}

bool neap_json_ok(const json_reader *r)
{
    return r->status == NEAP_OK;
}

bool neap_json_fail(json_reader *r, const char *format, ...)
{
    if (r->status != NEAP_OK)
        return false;
    size_t line = 1;
    const char *line_start = r->text;
    for (const char *c = r->text; c < r->at; c++)
        if (*c == '\n') {
            line++;
            line_start = c + 1;
        }
    char message[NEAP_DIAG_CAPACITY];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    r->status = neap_fail(r->diag, NEAP_INVALID, "%s:%zu:%zu: %s", r->source, line,
                          (size_t)(r->at - line_start) + 1, message);
    return false;
}

static void skip_space(json_reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\t' || *r->at == '\r'))
        r->at++;
}

/* The next significant character, not consumed; '\0' at the end of the text or after an error. */
static char peek(json_reader *r)
{
    if (r->status != NEAP_OK)
        return '\0';
    skip_space(r);
    return r->at < r->end ? *r->at : '\0';
}

static bool fail_expected(json_reader *r, const char *what)
{
    if (r->status != NEAP_OK)
        return false;
    skip_space(r);
    if (r->at >= r->end)
        return neap_json_fail(r, "the text ends where %s was expected; the file is cut off", what);
    return neap_json_fail(r, "expected %s", what);
}

static bool begin(json_reader *r, char bracket, const char *what)
{
    if (peek(r) != bracket)
        return fail_expected(r, what);
    if (++r->depth > DEEPEST)
        return neap_json_fail(r, "nested more than %d levels deep", DEEPEST);
    r->at++;
    r->first = true;
    return true;
}

/* Moves to the next member of an object or array; false at its closing bracket. */
static bool next(json_reader *r, char closing, const char *what)
{
    char c = peek(r);
    if (c == closing) {
        r->at++;
        r->depth--;
        r->first = false;
        return false;
    }
    if (r->first) {
        r->first = false;
        return r->status == NEAP_OK;
    }
    if (c != ',')
        return fail_expected(r, what);
    r->at++;
    if (peek(r) == closing)
        return neap_json_fail(r, "remove the comma before '%c'", closing);
    return r->status == NEAP_OK;
}

bool neap_json_begin_object(json_reader *r)
{
    return begin(r, '{', "an object '{'");
}

bool neap_json_begin_array(json_reader *r)
{
    return begin(r, '[', "an array '['");
}

bool neap_json_next_item(json_reader *r)
{
    return next(r, ']', "',' or ']'");
}

bool neap_json_next_key(json_reader *r, json_string *key)
{
    if (!next(r, '}', "',' or '}'"))
        return false;
    *key = neap_json_text(r);
    if (peek(r) != ':')
        return fail_expected(r, "':'");
    r->at++;
    return true;
}

void neap_json_end(json_reader *r)
{
    if (peek(r) != '\0' || r->at < r->end)
        neap_json_fail(r, "unexpected text after the end of the object");
}

/* ---- Strings ---- */

static bool read_hex4(json_reader *r, uint32_t *code)
{
    *code = 0;
    for (int i = 0; i < 4; i++, r->at++) {
        char c = r->at < r->end ? *r->at : '\0';
        uint32_t digit;
        if (c >= '0' && c <= '9')
            digit = (uint32_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            digit = (uint32_t)(c - 'a') + 10;
        else if (c >= 'A' && c <= 'F')
            digit = (uint32_t)(c - 'A') + 10;
        else
            return neap_json_fail(r, "four hexadecimal digits must follow \\u");
        *code = *code * 16 + digit;
    }
    return true;
}

static void put_utf8(neap_text *out, uint32_t code)
{
    char bytes[4];
    size_t length;
    if (code < 0x80) {
        bytes[0] = (char)code;
        length = 1;
    } else if (code < 0x800) {
        bytes[0] = (char)(0xc0 | code >> 6);
        length = 2;
    } else if (code < 0x10000) {
        bytes[0] = (char)(0xe0 | code >> 12);
        length = 3;
    } else {
        bytes[0] = (char)(0xf0 | code >> 18);
        length = 4;
    }
    for (size_t i = 1; i < length; i++)
        bytes[i] = (char)(0x80 | ((code >> 6 * (length - 1 - i)) & 0x3f));
    neap_text_append(out, bytes, length);
}

/* After "\u": one code point, from a surrogate pair if need be. */
static bool read_unicode_escape(json_reader *r)
{
    uint32_t code, low;
    if (!read_hex4(r, &code))
        return false;
    if (code >= 0xd800 && code < 0xdc00) {
        if (r->end - r->at < 2 || r->at[0] != '\\' || r->at[1] != 'u')
            return neap_json_fail(r, "the second half of a surrogate pair is missing");
        r->at += 2;
        if (!read_hex4(r, &low))
            return false;
        if (low < 0xdc00 || low > 0xdfff)
            return neap_json_fail(r,
                                  "the second half of a surrogate pair must be \\udc00 to \\udfff");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if (code >= 0xdc00 && code < 0xe000) {
        return neap_json_fail(
            r, "a surrogate needs its other half: \\ud800 to \\udbff, then \\udc00 to \\udfff");
    }
    if (code == 0)
        return neap_json_fail(r, "a string may not contain a NUL");
    put_utf8(&r->scratch, code);
    return true;
}

static bool read_escape(json_reader *r)
{
    static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    r->at++;
    char c = r->at < r->end ? *r->at : '\0';
    if (c == 'u') {
        r->at++;
        return read_unicode_escape(r);
    }
    const char *found = c ? strchr(letters, c) : NULL;
    if (!found)
        return neap_json_fail(r, "unknown escape in a string");
    neap_text_putc(&r->scratch, meanings[found - letters]);
    r->at++;
    return true;
}

/* One character that is not an escape: checked, not consumed. Its length, or 0 after an error. */
static size_t plain_length(json_reader *r)
{
    if ((unsigned char)*r->at < 0x20)
        return neap_json_fail(r, "a control character in a string must be written \\u%04x",
                              (unsigned)(unsigned char)*r->at);
    uint32_t code;
    size_t length = neap_utf8_decode(r->at, (size_t)(r->end - r->at), &code);
    if (length == 0)
        neap_json_fail(r, "a string is not valid UTF-8");
    return length;
}

/* The slow path: from the first escape on, the string is put together in scratch. */
static json_string read_escaped(json_reader *r, const char *start)
{
    r->scratch.length = 0;
    neap_text_append(&r->scratch, start, (size_t)(r->at - start));
    while (r->status == NEAP_OK && r->at < r->end && *r->at != '"') {
        if (*r->at == '\\') {
            read_escape(r);
        } else {
            size_t length = plain_length(r);
            neap_text_append(&r->scratch, r->at, length);
            r->at += length;
        }
    }
    if (r->scratch.status != NEAP_OK && r->status == NEAP_OK)
        r->status = neap_fail_no_memory(r->diag);
    if (r->status == NEAP_OK && r->at >= r->end)
        neap_json_fail(r, "the text ends inside a string; the file is cut off");
    if (r->status != NEAP_OK)
        return (json_string){"", 0};
    r->at++;
    return (json_string){r->scratch.text, r->scratch.length};
}

json_string neap_json_text(json_reader *r)
{
    if (peek(r) != '"') {
        fail_expected(r, "a string");
        return (json_string){"", 0};
    }
    const char *start = ++r->at;
    while (r->at < r->end) {
        if (*r->at == '"') {
            size_t length = (size_t)(r->at - start);
            r->at++;
            return (json_string){start, length};
        }
        if (*r->at == '\\')
            return read_escaped(r, start);
        size_t length = plain_length(r);
        if (length == 0)
            return (json_string){"", 0};
        r->at += length;
    }
    neap_json_fail(r, "the text ends inside a string; the file is cut off");
    return (json_string){"", 0};
}

/* ---- Numbers and words ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

typedef struct number {
    const char *start;
    size_t length;
    bool real; /* has a fraction or an exponent */
} number;

static const char *skip_digits(const char *at, const char *end)
{
    while (at < end && is_digit(*at))
        at++;
    return at;
}

/* Also what other programs write for numbers that JSON does not have: NaN, Infinity. */
static bool begins_number(json_reader *r)
{
    char c = peek(r);
    return c == '-' || is_digit(c) || c == 'N' || c == 'I';
}

/* The extent of a number by JSON's grammar, not consumed. */
static bool scan_number(json_reader *r, number *n)
{
    if (!begins_number(r))
        return fail_expected(r, "a number");
    char c = *r->at;
    if (c == 'N' || c == 'I' || (c == '-' && r->end - r->at > 1 && r->at[1] == 'I'))
        return neap_json_fail(r, "expected a finite number, not NaN or Infinity");
    const char *at = r->at + (c == '-'), *digits = at;
    n->start = r->at;
    n->real = false;
    at = skip_digits(at, r->end);
    if (at == digits)
        return neap_json_fail(r, "digits must follow the minus sign");
    if (*digits == '0' && at - digits > 1)
        return neap_json_fail(r, "a number may not have leading zeros");
    if (at < r->end && *at == '.') {
        n->real = true;
        digits = ++at;
        at = skip_digits(at, r->end);
        if (at == digits)
            return neap_json_fail(r, "digits must follow the decimal point");
    }
    if (at < r->end && (*at == 'e' || *at == 'E')) {
        n->real = true;
        at++;
        if (at < r->end && (*at == '+' || *at == '-'))
            at++;
        digits = at;
        at = skip_digits(at, r->end);
        if (at == digits)
            return neap_json_fail(r, "digits must follow the exponent");
    }
    n->length = (size_t)(at - n->start);
    return true;
}

/* strtod, with the decimal point that the locale wants. */
static double slow_double(json_reader *r, const number *n)
{
    r->scratch.length = 0;
    const char *point = localeconv()->decimal_point;
    for (size_t i = 0; i < n->length; i++)
        if (n->start[i] == '.')
            neap_text_puts(&r->scratch, point);
        else
            neap_text_putc(&r->scratch, n->start[i]);
    if (r->scratch.status != NEAP_OK) {
        r->status = neap_fail_no_memory(r->diag);
        return 0;
    }
    return strtod(r->scratch.text, NULL);
}

/*
 * Exact for up to 15 digits and a small power of ten, both exactly representable (Clinger's fast
 * path); strtod for the rest.
 */
static double number_value(json_reader *r, const number *n)
{
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                    1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                    1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    const char *at = n->start, *end = n->start + n->length;
    bool negative = *at == '-', after_point = false;
    int64_t mantissa = 0;
    int digits = 0, exponent = 0;
    for (at += negative; at < end && *at != 'e' && *at != 'E'; at++) {
        if (*at == '.') {
            after_point = true;
            continue;
        }
        if (digits > 0 || *at != '0')
            digits++;
        if (digits > 15)
            return slow_double(r, n);
        mantissa = mantissa * 10 + (*at - '0');
        exponent -= after_point;
    }
    if (at < end) {
        bool negative_exponent = *++at == '-';
        at += *at == '-' || *at == '+';
        int written = 0;
        for (; at < end && written < 10000; at++)
            written = written * 10 + (*at - '0');
        exponent += negative_exponent ? -written : written;
    }
    if (exponent < -22 || exponent > 22)
        return slow_double(r, n);
    double value =
        exponent < 0 ? (double)mantissa / powers[-exponent] : (double)mantissa * powers[exponent];
    return negative ? -value : value;
}

double neap_json_double(json_reader *r)
{
    number n;
    if (!scan_number(r, &n))
        return 0;
    double value = number_value(r, &n);
    if (!isfinite(value)) {
        neap_json_fail(r, "number out of range: at most 1.8e308");
        return 0;
    }
    r->at += n.length;
    return value;
}

/*
 * The number as an integer, exactly: its digits up to the place of the decimal point once the
 * exponent has moved it, and nothing but zeros behind. False if it is not whole, or too large: then
 * *too_large tells.
 */
static bool number_integer(const number *n, int64_t *result, bool *too_large)
{
    const char *end = n->start + n->length, *first = n->start + (*n->start == '-');
    const char *exponent_at = first;
    int64_t whole = 0, exponent = 0, value = 0; /* whole: digits before the point */
    while (exponent_at < end && *exponent_at != 'e' && *exponent_at != 'E')
        exponent_at++;
    for (const char *at = first; at < exponent_at && *at != '.'; at++)
        whole++;
    if (exponent_at < end) {
        const char *at = exponent_at + 1;
        bool negative = *at == '-';
        for (at += *at == '-' || *at == '+'; at < end && exponent < 1000000; at++)
            exponent = exponent * 10 + (*at - '0');
        whole += negative ? -exponent : exponent;
    }
    *too_large = false;
    for (const char *at = first; at < exponent_at; at++) {
        if (*at == '.')
            continue;
        int digit = *at - '0';
        if (whole-- <= 0) {
            if (digit != 0)
                return false;
        } else if (value > (INT64_MAX - digit) / 10) {
            *too_large = true;
            return false;
        } else {
            value = value * 10 + digit;
        }
    }
    for (; whole > 0 && value > 0; whole--) {
        if (value > INT64_MAX / 10) {
            *too_large = true;
            return false;
        }
        value *= 10;
    }
    *result = *n->start == '-' ? -value : value;
    return true;
}

bool neap_json_parse_number(const char *text, const char **end, double *value)
{
    char digits[64]; /* more of them change nothing that could be seen */
    size_t length = strspn(text, "+-.0123456789eE"), skipped = 0;
    if (text[0] == '.') {
        digits[0] = '0';
        skipped = 1;
    }
    if (length + skipped >= sizeof digits)
        return false;
    memcpy(digits + skipped, text, length);
    digits[length + skipped] = '\0';
    json_reader r;
    neap_json_init(&r, NULL, "", digits, length + skipped, NULL);
    number n;
    bool ok = scan_number(&r, &n);
    *value = ok ? number_value(&r, &n) : 0;
    *end = text + (ok ? n.length : skipped) - skipped;
    ok = ok && neap_json_ok(&r);
    neap_json_clear(&r);
    return ok;
}

int64_t neap_json_i64(json_reader *r)
{
    number n;
    int64_t value = 0;
    bool too_large;
    if (!scan_number(r, &n))
        return 0;
    if (number_integer(&n, &value, &too_large))
        r->at += n.length;
    else if (too_large)
        neap_json_fail(r, "number too large: at most %lld", (long long)INT64_MAX);
    else
        neap_json_fail(r, "expected a whole number");
    return value;
}

uint32_t neap_json_u32(json_reader *r, uint32_t most)
{
    skip_space(r);
    const char *start = r->at;
    int64_t value = neap_json_i64(r);
    if (r->status == NEAP_OK && (value < 0 || value > most)) {
        r->at = start;
        neap_json_fail(r, "expected a number from 0 to %lu, not %lld", (unsigned long)most,
                       (long long)value);
        return 0;
    }
    return (uint32_t)value;
}

static bool take_word(json_reader *r, const char *word)
{
    size_t length = strlen(word);
    if ((size_t)(r->end - r->at) < length || memcmp(r->at, word, length) != 0)
        return false;
    r->at += length;
    return true;
}

bool neap_json_bool(json_reader *r)
{
    char c = peek(r);
    if (c == 't' && take_word(r, "true"))
        return true;
    if (c == 'f' && take_word(r, "false"))
        return false;
    return fail_expected(r, "true or false");
}

bool neap_json_peek_real(json_reader *r)
{
    number n;
    char c = peek(r);
    return (c == '-' || is_digit(c)) && scan_number(r, &n) && n.real;
}

bool neap_json_peek_null(json_reader *r)
{
    return peek(r) == 'n';
}

void neap_json_skip(json_reader *r, json_string *raw)
{
    peek(r);
    const char *start = r->at;
    json_string key;
    number n;
    switch (peek(r)) {
    case '{':
        neap_json_begin_object(r);
        while (neap_json_next_key(r, &key))
            neap_json_skip(r, NULL);
        break;
    case '[':
        neap_json_begin_array(r);
        while (neap_json_next_item(r))
            neap_json_skip(r, NULL);
        break;
    case '"':
        neap_json_text(r);
        break;
    case 't':
    case 'f':
        neap_json_bool(r);
        break;
    case 'n':
        if (!take_word(r, "null"))
            fail_expected(r, "a value");
        break;
    default:
        if (!begins_number(r))
            fail_expected(r, "a value");
        else if (scan_number(r, &n))
            r->at += n.length;
    }
    if (raw)
        *raw = (json_string){start, r->status == NEAP_OK ? (size_t)(r->at - start) : 0};
}

bool neap_json_key_is(json_string key, const char *name)
{
    return strlen(name) == key.length && memcmp(key.text, name, key.length) == 0;
}

void neap_json_once(json_reader *r, uint32_t *seen, uint32_t bit, const char *name)
{
    if (*seen & bit)
        neap_json_fail(r, "\"%s\" is given twice", name);
    *seen |= bit;
}

/* ---- neap's own files ---- */

#define HEADER_KIND    0x80000000u
#define HEADER_VERSION 0x40000000u

bool neap_json_read_header(json_reader *r, json_string key, const char *kind, uint32_t *seen)
{
    bool is_kind = neap_json_key_is(key, "neap");
    if (!is_kind && !neap_json_key_is(key, "version"))
        return false;
    neap_json_once(r, seen, is_kind ? HEADER_KIND : HEADER_VERSION, is_kind ? "neap" : "version");
    peek(r);
    const char *start = r->at;
    json_string found = {kind, strlen(kind)};
    int64_t version = 1;
    if (is_kind)
        found = neap_json_text(r);
    else
        version = neap_json_i64(r);
    if (!neap_json_ok(r) || (version == 1 && neap_json_key_is(found, kind)))
        return true;
    r->at = start;
    if (is_kind)
        neap_json_fail(r, "this is a file of kind \"%.*s\", not \"%s\"",
                       (int)(found.length < 100 ? found.length : 100), found.text, kind);
    else
        neap_json_fail(r, "this is version %lld of the format; only version 1 is known",
                       (long long)version);
    return true;
}

void neap_json_require_header(json_reader *r, const char *kind, uint32_t seen)
{
    if (!(seen & HEADER_KIND))
        neap_json_fail(r, "the file has no \"neap\": \"%s\"", kind);
    if (!(seen & HEADER_VERSION))
        neap_json_fail(r, "the file has no \"version\": 1");
}
