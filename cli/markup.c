/* markup: see markup.h. */
#include "markup.h"

#include <string.h>

static const char *xml_entity(char c)
{
    switch (c) {
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '&':
        return "&amp;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    default:
        return NULL;
    }
}

void markup_xml(FILE *out, const char *safe)
{
    while (*safe) {
        const char *entity = xml_entity(*safe);
        if (entity) {
            fputs(entity, out);
        } else if (strncmp(safe, "\xEF\xBF\xBE", 3) == 0 || strncmp(safe, "\xEF\xBF\xBF", 3) == 0) {
            fputs("\xEF\xBF\xBD", out); /* U+FFFE and U+FFFF are no characters of XML */
            safe += 2;
        } else {
            fputc(*safe, out);
        }
        safe++;
    }
}

void markup_json(FILE *out, const char *safe)
{
    fputc('"', out);
    for (; *safe; safe++) {
        unsigned char c = (unsigned char)*safe;
        if (c < 0x20 || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&') {
            fprintf(out, "\\u%04x", c);
        } else {
            fputc(c, out);
        }
    }
    fputc('"', out);
}
