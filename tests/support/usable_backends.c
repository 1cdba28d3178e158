#include "usable_backends.h"

#include "fake_device.h"
#include "settings.h"

#include <neap/run.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool can_open(const char *name)
{
    neap_backend *backend;
    neap_diag diag;
    if (strcmp(name, "cuda") == 0 && setting("NEAP_TEST_FAKE_GPU", 0))
        use_fake_device(setting("NEAP_TEST_SEED", 1));
    neap_status status = neap_backend_open(NULL, name, 1, &backend, &diag);
    if (status == NEAP_OK) {
        neap_backend_close(backend);
        return true;
    }
    if (status != NEAP_UNSUPPORTED) { /* perhaps before the first test: there is none to fail */
        print_message("backend %s: %s\n", name, diag.message);
        exit(1);
    }
    print_message("skipped: backend %s cannot be used here: %s\n", name, diag.message);
    return false;
}

bool backend_is_usable(const char *name)
{
    enum { UNKNOWN, NO, YES };
    static char known[64];
    uint32_t i = 0;
    while (neap_backends_name(i) && strcmp(neap_backends_name(i), name) != 0)
        i++;
    assert_true(i < sizeof known && neap_backends_name(i));
    if (known[i] == UNKNOWN)
        known[i] = can_open(name) ? YES : NO;
    return known[i] == YES;
}

bool backend_computes(const char *name)
{
    return strcmp(name, "null") != 0 && backend_is_usable(name);
}

bool backend_is_for_case(const char *name, size_t index)
{
    return !strstr(name, "emulation") || index % ONE_IN_OR(2, 12) == 0;
}
