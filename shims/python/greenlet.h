/*
 * greenlet: follows greenlet switches (gevent, eventlet), which change the thread's context behind CPython's
 * back.
 */
#ifndef DVT_PY_GREENLET_H
#define DVT_PY_GREENLET_H

#include "py.h"

/* Installs the trace function for the calling thread (greenlet keeps one per thread), in front of one that is
 * there. True when done or not needed, false while greenlet is still being imported. */
bool dvt_py_greenlet_install(void);
/* A library was loaded: is it greenlet's? */
void dvt_py_greenlet_dlopened(const char *path);

#endif
