#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "xml_check.h"

#include <stdbool.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

size_t count_of(const char *text, const char *part)
{
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at++)
        count++;
    return count;
}

/* One of the five entities at `at`, which is an ampersand. */
static bool is_entity(const char *at)
{
    static const char *const entities[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
    for (size_t i = 0; i < COUNT_OF(entities); i++)
        if (strncmp(at, entities[i], strlen(entities[i])) == 0)
            return true;
    return false;
}

/* The attributes of a tag from behind its name; returns the '>' and whether the element ends with
 * it. */
static const char *skip_attributes(const char *at, bool *closed)
{
    for (;;) {
        size_t space = strspn(at, " \n");
        at += space;
        *closed = *at == '/';
        if (*closed)
            at++;
        if (*at == '>')
            return at;
        assert_true(space > 0 && !*closed); /* an attribute needs a blank before it */
        size_t name = strspn(at, "abcdefghijklmnopqrstuvwxyzBHW-");
        assert_true(name > 0);
        at += name;
        assert_memory_equal(at, "=\"", 2);
        for (at += 2; *at != '"'; at++) {
            assert_true(*at != '\0' && *at != '<');
            assert_true(*at != '&' || is_entity(at));
        }
        at++;
    }
}

/* Fails where a text is not one well-formed XML element of tags, attributes and text. */
static void assert_well_formed(const char *text)
{
    char open[16][16]; /* names of the elements around */
    int depth = 0;
    const char *at = text;
    do {
        for (; *at != '<'; at++) {
            assert_true(depth > 0 && *at != '\0' && *at != '>');
            assert_true(*at != '&' || is_entity(at));
            assert_true((unsigned char)*at >= 0x20 || *at == '\n');
        }
        bool closing = *++at == '/';
        at += closing;
        size_t name = strspn(at, "abcdefghijklmnopqrstuvwxyz");
        assert_true(name > 0 && name < 16);
        if (closing) {
            assert_true(depth > 0);
            depth--;
            assert_true(strncmp(open[depth], at, name) == 0 && open[depth][name] == '\0');
            at += name;
            assert_true(*at == '>');
        } else {
            bool closed;
            assert_true(depth < 16);
            memcpy(open[depth], at, name);
            open[depth][name] = '\0';
            at = skip_attributes(at + name, &closed);
            depth += !closed;
        }
        at++;
    } while (depth > 0);
    assert_string_equal(at, "\n");
}

void assert_picture(const char *text)
{
    static const char *const banned[] = {"script", "href", "url(", "style", "nan", "inf"};
    static const char root[] = "<svg xmlns=\"http://www.w3.org/2000/svg\" ";
    assert_well_formed(text);
    assert_memory_equal(text, root, sizeof root - 1);
    /* inside tags only: names of methods are text and may be anything */
    for (const char *at = strchr(text, '<'); at; at = strchr(at + 1, '<')) {
        size_t length = strcspn(at, ">");
        for (size_t i = 0; i < COUNT_OF(banned); i++)
            for (size_t k = 0; k + strlen(banned[i]) <= length; k++)
                assert_true(memcmp(at + k, banned[i], strlen(banned[i])) != 0);
    }
}
