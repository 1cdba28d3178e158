/*
 * Rounding R and S of a relaxation independently (Jain et al. 2020, section 5.1).
 *
 * Every entry of both matrices becomes 0 or 1 by itself: by a threshold, or at random with the
 * relaxation's value as probability. Nothing makes the result right: an op may lack an input,
 * (1b), or a frontier take over a value that the one before does not have, (1c). The paper finds
 * that of 50,000 roundings at random for VGG16 not one is feasible, and goes on to round S alone
 * (two_phase.h).
 *
 * A row is a set of bits. A rounding at random is dropped at the first row that lacks something,
 * so that most of them cost a few rows; a whole one costs the runs times the words of a row.
 */
#ifndef NEAP_PLANNERS_NAIVE_ROUNDING_H
#define NEAP_PLANNERS_NAIVE_ROUNDING_H

#include "planners/checkmate/two_phase.h"

typedef struct naive_rounder naive_rounder;

/* `s` must outlive it. */
neap_status neap_naive_rounder_create(neap_allocator *allocator, const lp_schedule *s,
                                      naive_rounder **rounder, neap_diag *diag);
void neap_naive_rounder_destroy(naive_rounder *rounder); /* may be NULL */

/*
 * Rounds once. Returns how many values are missing, each counted once per frontier in which an op
 * or the next frontier needs it: 0 means that (1b) and (1c) hold, and that the outputs are resident
 * at the end. At random it stops counting at the first row where something is missing.
 */
uint64_t neap_naive_rounder_round(naive_rounder *rounder, const rounding *how);

/* The runs of the last rounding that was complete: a row-major scan of R (Algorithm 1). */
const uint32_t *neap_naive_rounder_sequence(const naive_rounder *rounder, size_t *length);

#endif
