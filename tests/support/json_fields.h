/* Reads fields of a command's JSON output; the first field with the name counts. */
#ifndef NEAP_TESTS_JSON_FIELDS_H
#define NEAP_TESTS_JSON_FIELDS_H

/* The field's value as it stands there, up to the comma or the end of the line; the caller frees
 * it. A missing one fails the test. */
char *json_field(const char *json, const char *name);
/* A number. */
double json_number(const char *json, const char *name);

#endif
