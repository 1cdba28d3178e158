/* neap_stop_flag: a progress that is cancelled by a flag. */

#include <neap/progress.h>

static bool is_raised(neap_progress *self)
{
    neap_stop_flag *flag = (neap_stop_flag *)self;
    return __atomic_load_n(&flag->raised, __ATOMIC_RELAXED) != 0;
}

void neap_stop_flag_init(neap_stop_flag *flag)
{
    *flag = (neap_stop_flag){.base = {.cancelled = is_raised}};
}

void neap_stop_flag_raise(neap_stop_flag *flag)
{
    __atomic_store_n(&flag->raised, 1, __ATOMIC_RELAXED);
}
