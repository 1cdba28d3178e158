/*
 * neap/components.h - what this library was built with.
 *
 *     char version[NEAP_COMPONENT_VERSION];
 *     for (uint32_t i = 0; i < neap_components_count(); i++)
 *         printf("%s %s\n", neap_components_name(i),
 *                neap_components_version(i, version, sizeof version));
 */
#ifndef NEAP_COMPONENTS_H
#define NEAP_COMPONENTS_H

#include <neap/version.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Room for every version text. */
#define NEAP_COMPONENT_VERSION 128

NEAP_API uint32_t neap_components_count(void);
/* Of component `index`, which must be below the count: "HiGHS", and what it is for, in a few
   words. */
NEAP_API const char *neap_components_name(uint32_t index);
NEAP_API const char *neap_components_purpose(uint32_t index);
/* The version in use, which for a shared library is that of the file that was loaded; "" if the
   component is not built in. Returns `buffer`. */
NEAP_API char *neap_components_version(uint32_t index, char *buffer, size_t capacity);

#ifdef __cplusplus
}
#endif
#endif
