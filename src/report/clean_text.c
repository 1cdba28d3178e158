#include "report/clean_text.h"

#include "base/utf8.h"

#include <stdbool.h>
#include <string.h>

size_t neap_text_clean(neap_text *buffer, const char *text, size_t most, const char *ellipsis)
{
    size_t count = neap_string_characters(text, strlen(text));
    size_t tail = neap_string_characters(ellipsis, strlen(ellipsis));
    bool clipped = count > most;
    size_t wanted = !clipped ? count : most > tail ? most - tail : 0;
    for (size_t i = 0; i < wanted; i++) {
        neap_character c = neap_utf8_next(text);
        neap_text_append(buffer, c.shown, c.shown_length);
        text += c.length;
    }
    if (!clipped || most < tail)
        return wanted;
    neap_text_puts(buffer, ellipsis);
    return wanted + tail;
}

void neap_text_xml(neap_text *buffer, const char *text)
{
    static const char marks[] = "&<>\"'";
    static const char *const entities[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
    for (neap_character c; (c = neap_utf8_next(text)).length > 0; text += c.length) {
        const char *mark = strchr(marks, *c.shown);
        if (mark)
            neap_text_puts(buffer, entities[mark - marks]);
        else
            neap_text_append(buffer, c.shown, c.shown_length);
    }
}
