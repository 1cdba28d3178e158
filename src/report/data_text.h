/*
 * Writes JSON for the data block of a page: in a <script>, so that neither `<`, `>` nor `&` occurs,
 * and with every name cleaned as by neap_string_clean.
 */
#ifndef NEAP_REPORT_DATA_TEXT_H
#define NEAP_REPORT_DATA_TEXT_H

#include <neap/text.h>
#include <stdint.h>

/* A string, of at most `most` characters: a longer one ends in an ellipsis. NULL is null. */
void neap_data_string(neap_text *out, const char *string, size_t most);
/* The same of `length` bytes. */
void neap_data_part(neap_text *out, const char *string, size_t length, size_t most);
/* Like neap_text_i64, several times as fast. */
void neap_data_integer(neap_text *out, int64_t number);
/* A number below 0 is null; likewise one that is not finite. */
void neap_data_size(neap_text *out, int64_t bytes);
void neap_data_real(neap_text *out, double number);

/* A column: `"name":[`, then one item after another, then `]`. */
void neap_data_begin(neap_text *out, const char *name);
void neap_data_item(neap_text *out, int64_t number);
void neap_data_comma(neap_text *out); /* unless the column is still empty */
void neap_data_end(neap_text *out);

#endif
