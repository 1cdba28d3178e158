/* The size of a chart for a terminal. */
#ifndef NEAP_REPORT_CHART_SIZE_H
#define NEAP_REPORT_CHART_SIZE_H

#include <neap/report.h>

/* NEAP_INVALID for a width or height out of range. */
neap_status neap_chart_check_size(const neap_chart_options *options, neap_diag *diag);

#endif
