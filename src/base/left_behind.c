#include "base/left_behind.h"

#include <neap/progress.h>

#include <stdatomic.h>

static atomic_bool any_left;

void neap_note_left_thread(void)
{
    atomic_store(&any_left, true);
}

bool neap_has_left_threads(void)
{
    return atomic_load(&any_left);
}
