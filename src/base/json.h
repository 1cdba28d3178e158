/*
 * A pull reader for JSON text, strict (RFC 8259) and in one pass: no tree is built, so hostile
 * input costs no more memory than its own text, and every complaint can name its line and column.
 *
 *     neap_json_begin_object(r);
 *     while (neap_json_next_key(r, &key))
 *         if (neap_json_key_is(key, "bytes"))
 *             bytes = neap_json_i64(r);
 *         else
 *             neap_json_skip(r, NULL);
 *     neap_json_end(r);
 *
 * Errors are sticky: after the first one every call returns at once with a zero, every loop ends,
 * and r->status tells. Texts are UTF-8, checked, with or without a byte-order mark; a NUL
 * in a string is refused.
 */
#ifndef NEAP_BASE_JSON_H
#define NEAP_BASE_JSON_H

#include <neap/text.h>
#include <stdbool.h>

typedef struct json_reader {
    const char *source; /* names the text in messages */
    const char *text, *at, *end;
    neap_status status;
    neap_diag *diag;
    neap_text scratch; /* the last string that had escapes */
    bool first;        /* no item of the innermost object or array was read yet */
    uint32_t depth;
    char *file_text; /* of neap_json_open; or NULL */
    size_t file_length;
} json_reader;

/* A string of the text: not NUL-terminated, valid until the next string is read. */
typedef struct json_string {
    const char *text;
    size_t length;
} json_string;

void neap_json_init(json_reader *r, neap_allocator *allocator, const char *source, const char *text,
                    size_t length, neap_diag *diag);
/* The same of a file, which is read whole ("-" is standard input); a failure is r->status. */
void neap_json_open(json_reader *r, neap_allocator *allocator, const char *path, neap_diag *diag);
void neap_json_clear(json_reader *r);

/* Records an error at the current place: "source:line:column: message". Always returns false. */
bool neap_json_fail(json_reader *r, const char *format, ...) NEAP_PRINTF(2, 3);
bool neap_json_ok(const json_reader *r);

bool neap_json_begin_object(json_reader *r);
/* True with the next key, its value then to be read; false after the last, and after an error. */
bool neap_json_next_key(json_reader *r, json_string *key);
bool neap_json_begin_array(json_reader *r);
bool neap_json_next_item(json_reader *r);
/* Nothing but white space may follow. */
void neap_json_end(json_reader *r);

json_string neap_json_text(json_reader *r);
bool neap_json_bool(json_reader *r);
/* A whole number; also written 1e3 or 4.0 if it is whole. */
int64_t neap_json_i64(json_reader *r);
/* A whole number from 0 to `most`. */
uint32_t neap_json_u32(json_reader *r, uint32_t most);
/* A finite number. */
double neap_json_double(json_reader *r);
/*
 * A decimal number at the beginning of a text, whatever the locale; *end gets where it ends. False
 * if there is none, or it is not finite. Takes what JSON takes, and ".5".
 */
bool neap_json_parse_number(const char *text, const char **end, double *value);
/* Whether the next value is a number with a fraction or exponent. */
bool neap_json_peek_real(json_reader *r);
bool neap_json_peek_null(json_reader *r);
/* Reads any value; *raw, if not NULL, gets its text. */
void neap_json_skip(json_reader *r, json_string *raw);

/*
 * Each of neap's files is an object with "neap": kind and "version": 1 among its fields. Reads the
 * value if `key` is one of the two; marks it in *seen, by the two highest bits.
 */
bool neap_json_read_header(json_reader *r, json_string key, const char *kind, uint32_t *seen);
/* At the end of the object: an error if either was not seen. */
void neap_json_require_header(json_reader *r, const char *kind, uint32_t seen);

bool neap_json_key_is(json_string key, const char *name);
/* Marks a field as seen; an error if it was already. */
void neap_json_once(json_reader *r, uint32_t *seen, uint32_t bit, const char *name);

#endif
