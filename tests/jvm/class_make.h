/* A class file made by hand, for tests of what reads class files: constants and one method after the other. */
#ifndef TESTS_JVM_CLASS_MAKE_H
#define TESTS_JVM_CLASS_MAKE_H

#include <stdint.h>
#include <string.h>

struct class_make {
    uint8_t p[4096];
    size_t n, count_at, methods_at; /* where the numbers of constants and of methods are */
    uint16_t n_constants, n_methods, code_name; /* n_constants: as the file has it, one more than there are */
};

static void class_u1(struct class_make *c, unsigned v)
{
    c->p[c->n++] = (uint8_t)v;
}

static void class_u2(struct class_make *c, unsigned v)
{
    class_u1(c, v >> 8);
    class_u1(c, v);
}

static void class_u4(struct class_make *c, uint32_t v)
{
    class_u2(c, v >> 16);
    class_u2(c, v);
}

static void class_begin(struct class_make *c)
{
    *c = (struct class_make){.n_constants = 1};
    class_u4(c, 0xcafebabe);
    class_u4(c, 52);
    c->count_at = c->n;
    class_u2(c, 0);
}

static uint16_t class_text(struct class_make *c, const char *text)
{
    class_u1(c, 1);
    class_u2(c, (unsigned)strlen(text));
    memcpy(c->p + c->n, text, strlen(text));
    c->n += strlen(text);
    return c->n_constants++;
}

static uint16_t class_pair(struct class_make *c, unsigned tag, unsigned a, unsigned b)
{
    class_u1(c, tag);
    class_u2(c, a);
    class_u2(c, b);
    return c->n_constants++;
}

static uint16_t class_class(struct class_make *c, const char *name)
{
    uint16_t text = class_text(c, name);
    class_u1(c, 7);
    class_u2(c, text);
    return c->n_constants++;
}

static uint16_t class_method_ref(struct class_make *c, uint16_t class, const char *name, const char *descriptor)
{
    uint16_t n = class_text(c, name), d = class_text(c, descriptor);
    return class_pair(c, 10, class, class_pair(c, 12, n, d));
}

/* Between the constants, which end here, and the methods, which begin: no interfaces, no fields. */
static void class_body(struct class_make *c)
{
    c->p[c->count_at] = (uint8_t)(c->n_constants >> 8);
    c->p[c->count_at + 1] = (uint8_t)c->n_constants;
    for (int i = 0; i < 5; i++)
        class_u2(c, 0);
    c->methods_at = c->n;
    class_u2(c, 0);
}

/* Returns where its code is. */
static size_t class_method(struct class_make *c, uint16_t name, const uint8_t *code, size_t n_code)
{
    class_u2(c, 0);
    class_u2(c, name);
    class_u2(c, name);
    class_u2(c, 1);
    class_u2(c, c->code_name);
    class_u4(c, (uint32_t)(12 + n_code));
    class_u4(c, 0x00020002);
    class_u4(c, (uint32_t)n_code);
    size_t at = c->n;
    memcpy(c->p + c->n, code, n_code);
    c->n += n_code;
    class_u4(c, 0);
    c->n_methods++;
    c->p[c->methods_at + 1] = (uint8_t)c->n_methods;
    return at;
}

static void class_end(struct class_make *c)
{
    class_u2(c, 0);
}

#endif
