/*
 * resource: the service's name out of OTEL_RESOURCE_ATTRIBUTES: "key=value,key=value", values percent-encoded
 * (OpenTelemetry's specification of resources and of environment variables).
 */
#ifndef DVT_RESOURCE_H
#define DVT_RESOURCE_H

#include <stddef.h>
#include <string.h>

static inline int dvt_hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* Decodes the value of service.name in text (may be NULL) into out[cap], NUL-terminated, cut if it is longer.
 * "": it has none. */
static inline void dvt_resource_service(const char *text, char *out, size_t cap)
{
    static const char key[] = "service.name=";
    size_t n = 0, n_key = sizeof key - 1;
    const char *p = text ? text : "";
    while (*p && strncmp(p + strspn(p, " "), key, n_key) != 0) {
        p += strcspn(p, ",");
        p += *p == ',';
    }
    for (p += *p ? strspn(p, " ") + n_key : 0; *p && *p != ',' && n < cap - 1; p++) {
        int high = *p == '%' ? dvt_hex_digit(p[1]) : -1, low = high >= 0 ? dvt_hex_digit(p[2]) : -1;
        unsigned byte = low >= 0 ? (unsigned)high << 4 | (unsigned)low : (unsigned char)*p;
        out[n++] = (char)(unsigned char)byte;
        p += low >= 0 ? 2 : 0;
    }
    while (n > 0 && out[n - 1] == ' ')
        n--;
    out[n] = 0;
}

#endif
