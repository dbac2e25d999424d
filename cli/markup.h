/*
 * markup: text into XML, HTML and JSON inside HTML. Input has passed text_safe (text.h): UTF-8 without
 * control characters.
 */
#ifndef MARKUP_H
#define MARKUP_H

#include <stdio.h>

/* As text or as the value of a quoted attribute. Characters XML 1.0 does not know become U+FFFD. */
void markup_xml(FILE *out, const char *safe);
/* A JSON string with its quotes that may stand inside <script>: no '<', '>' or '&' appears. */
void markup_json(FILE *out, const char *safe);

#endif
