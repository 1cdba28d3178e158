/*
 * doctor.h - the checks of neap doctor. Each runs something and says what came of it.
 */
#ifndef NEAP_CLI_DOCTOR_H
#define NEAP_CLI_DOCTOR_H

#include <neap/run.h>
#include <neap/text.h>

typedef enum doctor_status {
    DOCTOR_OK = 0,
    DOCTOR_MISSING, /* not there: neap works without it */
    DOCTOR_FAILED   /* there, but it does not work */
} doctor_status;

/* What a check found. Texts are of one line, and may name files of this machine. */
typedef struct doctor_finding {
    doctor_status status;
    neap_text detail; /* what was found, or what is wrong */
    neap_text remedy; /* what to do; empty if it is ok */
} doctor_finding;

typedef struct doctor_check {
    const char *name;
    const char *ran; /* what is run, in a few words */
    bool essential;  /* without it neap does not plan or train */
    void (*run)(doctor_finding *finding);
} doctor_check;

extern const doctor_check doctor_checks[];
extern const uint32_t doctor_checks_count;

/* Sets the status, with a detail and a remedy (NULL: none). */
void doctor_say(doctor_finding *finding, doctor_status status, const char *detail,
                const char *remedy);

/* ---- doctor_step.c: one training step of a small network ---- */

/*
 * Trains a step on a backend and compares loss and gradients with those of the plain C kernels of
 * backend ref. *error gets the largest difference, in units of the largest number. The machine line
 * of the backend goes to `machine`.
 */
neap_status doctor_step(const char *backend, int threads, double *error, neap_text *machine,
                        int *used_threads, neap_diag *diag);

#endif
