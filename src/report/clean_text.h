/* Names come from files and end up in terminals and pages: what could break either becomes '?'. */
#ifndef NEAP_REPORT_CLEAN_TEXT_H
#define NEAP_REPORT_CLEAN_TEXT_H

#include "base/text_buffer.h"

/*
 * Appends at most `most` characters of a text; a longer one ends in `ellipsis` (of one character or
 * three dots). Control characters and what is not UTF-8 become '?'. Returns the characters
 * appended, a character being a code point: East Asian wide ones count as one.
 */
size_t neap_text_clean(neap_text *buffer, const char *text, size_t most, const char *ellipsis);

/* The same, whole, with & < > " ' written as XML entities: good as content and between quotes. */
void neap_text_xml(neap_text *buffer, const char *text);

/* Characters in a text, as neap_text_clean counts them. */
size_t neap_text_characters(const char *text);

#endif
