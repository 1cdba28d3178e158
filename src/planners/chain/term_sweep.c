#include "planners/chain/term_sweep.h"

/* The improvement that a sweep requires: best / 2^shift. */
enum { COARSEST = 2, MIDDLE = 5, FINE = 8, EXACT = 63 };

static int64_t try_term(term_sweep *sweep, int64_t most, int64_t *largest)
{
    sweep->tried++;
    return sweep->stored(sweep->context, most, largest);
}

/*
 * Goes through all s from the largest to the smallest, except those that cannot improve on `best`
 * by more than best / 2^shift. Returns false if asked to stop; the coarsest sweep always completes.
 */
static bool go_through(term_sweep *sweep, int shift)
{
    int64_t most = sweep->most > sweep->least ? sweep->most : sweep->least;
    while (most >= sweep->least) {
        if (shift != COARSEST && sweep->planner && neap_planner_stopped(sweep->planner))
            return false;
        int64_t largest, stored = try_term(sweep, most, &largest);
        if (stored < sweep->best - largest) {
            sweep->best = stored + largest;
            sweep->best_term = largest;
        }
        int64_t useful = sweep->best - (sweep->best >> shift) - stored; /* less may improve */
        most = (useful < largest ? useful : largest) - 1;
    }
    return true;
}

void neap_term_sweep_run(term_sweep *sweep)
{
    static const int shifts[] = {COARSEST, MIDDLE, FINE, EXACT};
    int64_t largest;
    sweep->best =
        try_term(sweep, sweep->least, &largest) + largest; /* so that there is an answer */
    sweep->best_term = largest;
    for (size_t i = 0; i < sizeof shifts / sizeof *shifts && !sweep->stopped; i++)
        sweep->stopped = !go_through(sweep, shifts[i]);
}
