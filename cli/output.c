/* output: the table of formats; see output.h. */
#include "output.h"

#include <string.h>

static const struct output_ops *const formats[] = {&out_text, &out_folded, &out_html, &out_svg, &out_json};
enum { N_FORMATS = sizeof formats / sizeof *formats };

const struct output_ops *output_by_name(const char *name)
{
    for (size_t i = 0; i < N_FORMATS; i++) {
        if (strcmp(formats[i]->name, name) == 0) {
            return formats[i];
        }
    }
    return NULL;
}

const struct output_ops *output_by_file(const char *path)
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
    for (size_t i = 0; dot && dot > slash && i < N_FORMATS; i++) {
        if (strcmp(formats[i]->extension, dot) == 0) {
            return formats[i];
        }
    }
    return NULL;
}

const char *output_names(void)
{
    static char names[128];
    size_t n = 0;
    for (size_t i = 0; i < N_FORMATS && !(i == 0 && names[0]); i++) {
        n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", i ? ", " : "", formats[i]->name);
    }
    return names;
}
