/* A caller that cancels after a number of questions. */
#ifndef NEAP_TESTS_IMPATIENT_H
#define NEAP_TESTS_IMPATIENT_H

#include <neap/progress.h>

#include <stdatomic.h>

typedef struct impatient {
    neap_progress base; /* the first member */
    atomic_uint asked;
    unsigned patience; /* questions until it cancels */
} impatient;

static inline bool impatient_cancels(neap_progress *self)
{
    impatient *i = (impatient *)self;
    return atomic_fetch_add(&i->asked, 1) >= i->patience;
}

#endif
