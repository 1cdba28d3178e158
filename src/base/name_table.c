#include "base/name_table.h"

#include "base/fail.h"
#include "base/hash.h"
#include "base/memory.h"

#include <stdbool.h>
#include <string.h>

void neap_name_table_init(neap_name_table *table, neap_allocator *allocator)
{
    *table = (neap_name_table){.allocator = allocator};
}

void neap_name_table_clear(neap_name_table *table)
{
    NEAP_DELETE(table->allocator, table->capacity, table->names);
    NEAP_DELETE(table->allocator, table->n_slots, table->slots);
    neap_name_table_init(table, table->allocator);
}

neap_name neap_name_of(const char *text, size_t length)
{
    return (neap_name){text, length, neap_hash_bytes(NEAP_HASH_BEGIN, text, length)};
}

static bool is_same(const neap_name *a, const neap_name *b)
{
    return a->hash == b->hash && a->length == b->length && memcmp(a->text, b->text, a->length) == 0;
}

/* The slot of a name, or the empty one where it belongs. The high bits of the hash are mixed in,
   because the low ones depend on the last characters most. */
static size_t slot_of(const neap_name_table *table, const neap_name *name)
{
    size_t slot = (size_t)(name->hash ^ name->hash >> 32) & (table->n_slots - 1);
    while (table->slots[slot] && !is_same(&table->names[table->slots[slot] - 1], name))
        slot = (slot + 1) & (table->n_slots - 1);
    return slot;
}

uint32_t neap_name_table_find(const neap_name_table *table, neap_name name)
{
    uint32_t found = table->n_slots > 0 ? table->slots[slot_of(table, &name)] : 0;
    return found > 0 ? found - 1 : NEAP_NO_NAME;
}

/* Twice as many slots. */
static neap_status grow(neap_name_table *table, neap_diag *diag)
{
    static const size_t FIRST = 64;
    neap_name_table larger = *table;
    larger.n_slots = table->n_slots > 0 ? 2 * table->n_slots : FIRST;
    larger.slots = NULL;
    NEAP_TRY(NEAP_NEW(table->allocator, larger.n_slots, &larger.slots, diag));
    for (size_t i = 0; i < table->count; i++)
        larger.slots[slot_of(&larger, &table->names[i])] = (uint32_t)i + 1;
    NEAP_DELETE(table->allocator, table->n_slots, table->slots);
    *table = larger;
    return NEAP_OK;
}

neap_status neap_name_table_add(neap_name_table *table, neap_name name, uint32_t *number,
                                neap_diag *diag)
{
    *number = neap_name_table_find(table, name);
    if (*number != NEAP_NO_NAME)
        return NEAP_OK;
    if (2 * (table->count + 1) > table->n_slots)
        NEAP_TRY(grow(table, diag));
    NEAP_TRY(
        NEAP_RESERVE(table->allocator, table->count + 1, &table->names, &table->capacity, diag));
    *number = (uint32_t)table->count;
    table->slots[slot_of(table, &name)] = *number + 1;
    table->names[table->count++] = name;
    return NEAP_OK;
}
