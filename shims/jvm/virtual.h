/*
 * virtual: scopes of virtual threads (JDK 21 and later). A virtual thread runs on carriers, by turns; each stay is a
 * residency. Its scopes are closed when it is unmounted and opened anew, with the same ids, where it is mounted next, so
 * that a carrier has nothing open of a thread that is not on it. HotSpot tells both by extension events of JVMTI,
 * which are on from the first scope on a virtual thread on.
 */
#ifndef DVT_JVM_VIRTUAL_H
#define DVT_JVM_VIRTUAL_H

#include <jni.h>
#include <jvmti.h>

#include "../core/runtime.h"

enum { DVT_JVM_VIRTUAL_MAX = 32 }; /* scopes open in one virtual thread */

/* Bytes of labels and the labels that point into them. */
struct dvt_jvm_labels {
    size_t n;
    struct dvt_label v[DVT_MAX_LABELS];
    char text[];
};

/* Opens what there is of virtual threads in this JVM, or nothing. In the live phase. */
void dvt_jvm_virtual_init(JavaVM *vm);
/* Before recording begins: follows the threads that had scopes at an earlier stop. */
void dvt_jvm_virtual_start(void);
/* When nothing is sampled any more. */
void dvt_jvm_virtual_stop(void);

#endif
