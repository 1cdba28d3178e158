/* Checks SVG as an XML parser would, for pictures of the library. */
#ifndef NEAP_TEST_XML_CHECK_H
#define NEAP_TEST_XML_CHECK_H

#include <stddef.h>

/* Fails where a text is not one well-formed XML element of tags, attributes and text, followed by a
 * line break. Also fails on anything that would make it depend on something else: scripts,
 * references, styles; and on numbers that are not finite. */
void assert_picture(const char *text);

size_t count_of(const char *text, const char *part);

#endif
