/*
 * napi: small helpers over Node-API.
 */
#ifndef DVT_NODE_NAPI_H
#define DVT_NODE_NAPI_H

#include <node_api.h>
#include <stddef.h>

struct dvt_node_function {
    const char *name;
    napi_callback call;
};

/* Sets functions[n] on object. */
static inline napi_status dvt_node_functions(napi_env env, napi_value object, const struct dvt_node_function *functions,
                                             size_t n)
{
    napi_status rc = napi_ok;
    for (size_t i = 0; i < n && rc == napi_ok; i++) {
        napi_value f;
        rc = napi_create_function(env, functions[i].name, NAPI_AUTO_LENGTH, functions[i].call, NULL, &f);
        if (rc == napi_ok)
            rc = napi_set_named_property(env, object, functions[i].name, f);
    }
    return rc;
}

#endif
