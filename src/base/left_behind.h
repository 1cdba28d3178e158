/* Threads of other libraries that the caller no longer waits for (neap_has_left_threads). */
#ifndef NEAP_BASE_LEFT_BEHIND_H
#define NEAP_BASE_LEFT_BEHIND_H

/* A thread is left behind. A process that ends normally waits for it, before the destructors of the
   library that it runs in. */
void neap_left_thread_begin(void);
/* Such a thread has released everything. */
void neap_left_thread_end(void);

#endif
