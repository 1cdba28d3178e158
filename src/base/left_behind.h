/* Threads of other libraries that the caller no longer waits for (neap_has_left_threads). */
#ifndef NEAP_BASE_LEFT_BEHIND_H
#define NEAP_BASE_LEFT_BEHIND_H

/* From now on neap_has_left_threads is true. */
void neap_note_left_thread(void);

#endif
