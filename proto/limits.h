/*
 * limits: every bound on what others can make grow, in one place.
 * Bytes are UTF-8 bytes without a terminating NUL.
 */
#ifndef DVT_LIMITS_H
#define DVT_LIMITS_H

enum {
    DVT_MAX_LABELS = 16,       /* per scope */
    DVT_MAX_LABEL_KEY = 64,    /* bytes */
    DVT_MAX_LABEL_VALUE = 256, /* bytes */
    DVT_MAX_NAME = 256,        /* bytes of a scope, thread, service name; longer is cut at a UTF-8 border */
    DVT_MAX_TAG = 1024,        /* bytes of a rendered tag */
    DVT_MAX_LINKS = 64,        /* links of one scope (fan-in) */
    DVT_MAX_DEPTH = 128,       /* open scopes nested on one thread */
    DVT_MAX_NAMES = 4096,      /* interned scope names in one process; more count as "(other)" */
    DVT_MAX_FRAMES = 512, /* frames of one stack: 384 from the leaf, 128 from the root, marked truncated */
    DVT_MAX_FRAMES_LEAF = 384,
    DVT_MAX_FRAME_NAME = 512,    /* bytes of a function name */
    DVT_MAX_PATH = 1024,         /* bytes of a file name */
    DVT_MAX_CONTROL = 65536,     /* bytes of one packet on the control socket */
    DVT_MAX_STATUS_PART = 60000, /* bytes of JSON in one STATUS message */
    DVT_MAX_MESSAGE = 4 << 20,   /* bytes of one ZeroMQ message */
    DVT_MAX_BATCH = 65536,       /* scopes or stacks in one message */
    DVT_MAX_SERVICE = 128,       /* bytes */
    DVT_MAX_HZ = 10000,          /* sampling rate without --force */
};

#endif
