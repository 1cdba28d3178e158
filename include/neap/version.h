/*
 * neap/version.h - the version of neap, and macros for its declarations.
 *
 * The macros give the version of the headers at compile time, the function that of the library at
 * run time. Before 1.0 a new minor number may change the interface: libneap.so.0.1.
 */
#ifndef NEAP_VERSION_H
#define NEAP_VERSION_H

#define NEAP_VERSION_MAJOR  0
#define NEAP_VERSION_MINOR  1
#define NEAP_VERSION_PATCH  0
#define NEAP_VERSION_STRING "0.1.0"

#if defined(__GNUC__)
#define NEAP_API __attribute__((visibility("default")))
#define NEAP_PRINTF(format_index, first_index)                                                     \
    __attribute__((format(printf, format_index, first_index)))
#else
#define NEAP_API
#define NEAP_PRINTF(format_index, first_index)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the running library, such as "0.1.0". Never NULL, never freed. */
NEAP_API const char *neap_version(void);

#ifdef __cplusplus
}
#endif
#endif
