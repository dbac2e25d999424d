/*
 * err: fills the error record.
 *
 * The text may quote bytes from outside (file names, peers' strings), so it is made one printable line here:
 * whoever logs or prints it need not look at it again.
 */
#include "err.h"
#include "str.h"

#include <stdarg.h>
#include <stdio.h>

int dvt_fail(struct dvt_err *err, int code, int sys_errno, const char *fmt, ...)
{
    if (!err)
        return code;
    char raw[sizeof err->text];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(raw, sizeof raw, fmt, ap);
    va_end(ap);
    size_t len = n < 0 ? 0 : (size_t)n;
    if (len >= sizeof raw) /* vsnprintf cut it, perhaps inside a character */
        len = dvt_utf8_border(raw, sizeof raw - 1);
    err->code = code;
    err->sys_errno = sys_errno;
    dvt_utf8_clean(raw, len, true, err->text, sizeof err->text);
    return code;
}
