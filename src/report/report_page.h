/* The page of a report without its data: made from src/report/web/ by cmake/page.cmake. */
#ifndef NEAP_REPORT_REPORT_PAGE_H
#define NEAP_REPORT_REPORT_PAGE_H

#include <stddef.h>

/* Each occurs once in the page. */
#define NEAP_PAGE_TITLE "NEAP-TITLE"
#define NEAP_PAGE_DATA  "<!--NEAP-DATA-->"

extern const char *const neap_report_page; /* NUL-terminated */
extern const size_t neap_report_page_length;

#endif
