/* Numbers for strings, in order of their first appearance. O(length) a call. */
#ifndef NEAP_BASE_NAME_TABLE_H
#define NEAP_BASE_NAME_TABLE_H

#include <neap/allocator.h>
#include <neap/status.h>
#include <stdint.h>

typedef struct neap_name {
    const char *text; /* the caller's; not NUL-terminated */
    size_t length;
    uint64_t hash;
} neap_name;

typedef struct neap_name_table {
    neap_allocator *allocator;
    neap_name *names;
    size_t count, capacity;
    uint32_t *slots; /* a power of two of them: the number of a name plus 1, or 0 */
    size_t n_slots;
} neap_name_table;

void neap_name_table_init(neap_name_table *table, neap_allocator *allocator);
void neap_name_table_clear(neap_name_table *table);

neap_name neap_name_of(const char *text, size_t length);
/* The number of a name, or NEAP_NO_NAME. */
#define NEAP_NO_NAME UINT32_MAX
uint32_t neap_name_table_find(const neap_name_table *table, neap_name name);
/* The same; a new name gets the next number. */
neap_status neap_name_table_add(neap_name_table *table, neap_name name, uint32_t *number,
                                neap_diag *diag);

#endif
