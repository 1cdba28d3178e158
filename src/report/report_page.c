/* neap/report.h: the report as one HTML file. */
#include "report/report_page.h"

#include "base/fail.h"
#include "base/memory.h"
#include "report/clean_text.h"

#include <neap/report.h>
#include <neap/text.h>

#include <string.h>

/* Copies the page up to a mark; returns what follows the mark. */
static const char *copy_up_to(neap_text *out, const char *page, const char *mark)
{
    const char *at = strstr(page, mark);
    if (!at)
        return NULL;
    neap_text_append(out, page, (size_t)(at - page));
    return at + strlen(mark);
}

static neap_status put_page(neap_text *out, const neap_report *report, const char *block,
                            size_t length, neap_diag *diag)
{
    const char *page = copy_up_to(out, neap_report_page, NEAP_PAGE_TITLE);
    if (!page)
        return neap_fail(diag, NEAP_INTERNAL, "the page has no %s", NEAP_PAGE_TITLE);
    neap_text_xml(out, report->title ? report->title : neap_graph_name(report->graph));
    page = copy_up_to(out, page, NEAP_PAGE_DATA);
    if (!page)
        return neap_fail(diag, NEAP_INTERNAL, "the page has no %s", NEAP_PAGE_DATA);
    neap_text_puts(out, "<script type=\"application/json\" id=\"neap-data\">\n");
    neap_text_append(out, block, length);
    neap_text_puts(out, "</script>");
    neap_text_puts(out, page);
    return NEAP_OK;
}

neap_status neap_report_html(neap_allocator *allocator, const neap_report *report, char **text,
                             size_t *length, neap_diag *diag)
{
    char *block;
    size_t block_length;
    neap_text out;
    allocator = neap_allocator_or_system(allocator);
    *text = NULL;
    *length = 0;
    NEAP_TRY(neap_report_data(allocator, report, &block, &block_length, diag));
    neap_text_init(&out, allocator);
    neap_status status = put_page(&out, report, block, block_length, diag);
    neap_release(allocator, block, block_length + 1);
    if (status == NEAP_OK)
        status = neap_text_take(&out, text, length, diag);
    neap_text_clear(&out);
    return status;
}
