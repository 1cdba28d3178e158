#include "settings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdlib.h>

uint64_t setting(const char *name, uint64_t fallback)
{
    const char *value = getenv(name);
    return value ? strtoull(value, NULL, 10) : fallback;
}

void need_highs(void)
{
    if (NEAP_HAS_HIGHS)
        return;
    print_message("this build has no HiGHS\n");
    skip();
}
