/*
 * oneDNN behind functions of our own, the same for its releases 2 and 3.
 *
 * Only dnnl_api.c sees the library.
 */
#ifndef NEAP_RUN_DNNL_API_H
#define NEAP_RUN_DNNL_API_H

#include "run/backends/onednn/onednn.h"

neap_status dnnl_api_open(neap_allocator *allocator, int threads, dnnl_api **api, neap_diag *diag);
void dnnl_api_close(dnnl_api *api); /* NULL is fine */

/* Of the library at run time: "2.6.3". */
const char *dnnl_api_version(const dnnl_api *api);
/* What of the processor the library uses: "avx512". */
const char *dnnl_api_isa(void);

#endif
