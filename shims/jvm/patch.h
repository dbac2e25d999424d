/*
 * patch: changes a class file so that ThreadLocal.set(value), called on a ThreadLocal, becomes a static call of our own with the
 * same operands: invokevirtual and invokestatic are three bytes each, so no offset in the code moves and no stack map
 * changes; some constants are appended.
 *
 *     ThreadLocal.set(Object)   in a method that enters a context    enter(ThreadLocal, Object)
 *     the same                  in any other                         restore(ThreadLocal, Object)
 *     ThreadLocal.remove()                                           clear(ThreadLocal)
 *
 * Source: The Java Virtual Machine Specification, chapters 4.4 (constant pool), 4.7.3 (Code), 6.5 (instructions). A class
 * file that is not as described there is refused, whatever is in it.
 */
#ifndef DVT_JVM_PATCH_H
#define DVT_JVM_PATCH_H

#include <stddef.h>
#include <stdint.h>

enum { DVT_JVM_PATCH_TARGET = 200, DVT_JVM_PATCH_EXTRA = 512 }; /* EXTRA: bytes that a patched class is longer, at most */

struct dvt_jvm_patch {
    const char *enters; /* the method that enters a context */
    const char *target; /* a/b/C, at most DVT_JVM_PATCH_TARGET bytes: the class whose static methods are called instead */
};

/* Writes the patched class into out[n + DVT_JVM_PATCH_EXTRA] and its length into *ret_n. The number of calls replaced; 0: nothing to
 * patch; DVT_EFORMAT: not a class file as expected; DVT_ENOMEM. */
int dvt_jvm_patch(const uint8_t *class, size_t n, const struct dvt_jvm_patch *how, uint8_t *out, size_t *ret_n);

#endif
