#include "settings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdlib.h>
#include <unistd.h>

uint64_t setting(const char *name, uint64_t fallback)
{
    const char *value = getenv(name);
    return value ? strtoull(value, NULL, 10) : fallback;
}

void skip_because(const char *reason)
{
    print_message("skipped: %s\n", reason);
    skip();
}

void need_highs(void)
{
    if (!NEAP_HAS_HIGHS)
        skip_because("this build has no HiGHS");
}

void need_python(void)
{
    if (system("python3 -c '' >/dev/null 2>&1") != 0)
        skip_because("there is no python3 to run the oracle");
}

const char *need_instances(void)
{
    static const char folder[] = NEAP_SHARED_DIR "/instances";
    if (access(folder, R_OK) != 0)
        skip_because("there is no folder " NEAP_SHARED_DIR
                     "/instances, which lies outside the repository");
    return folder;
}
