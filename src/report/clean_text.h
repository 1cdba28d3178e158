/* Appends names from files to text for a terminal or a page, cleaned as by neap_string_clean. */
#ifndef NEAP_REPORT_CLEAN_TEXT_H
#define NEAP_REPORT_CLEAN_TEXT_H

#include <neap/text.h>

/*
 * Appends at most `most` characters of a text; a longer one ends in `ellipsis` (of one character or
 * three dots). Returns the characters appended.
 */
size_t neap_text_clean(neap_text *buffer, const char *text, size_t most, const char *ellipsis);

/* The same without a limit, with & < > " ' as XML entities: safe as content and in attributes. */
void neap_text_xml(neap_text *buffer, const char *text);

#endif
