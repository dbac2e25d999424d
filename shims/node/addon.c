/*
 * addon: the native module. Loading it defines the functions for one environment (the main thread or a worker);
 * start() connects the process to the daemon, once. What fails is told by start()'s text, never by an exception.
 */
#include "lane.h"
#include "napi.h"
#include "walker.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct dvt_runtime runtime = {.runtime = "node"};
static char runtime_version[32], program[256];

static napi_value text(napi_env env, const char *s)
{
    napi_value v = NULL;
    (void)napi_create_string_utf8(env, s, NAPI_AUTO_LENGTH, &v); /* undefined on failure */
    return v;
}

static const struct dvt_v8 *v8;

static void set_version(napi_env env)
{
    const napi_node_version *v;
    if (napi_get_node_version(env, &v) == napi_ok) {
        v8 = dvt_v8(v->major);
        snprintf(runtime_version, sizeof runtime_version, "%u.%u.%u", v->major, v->minor, v->patch);
        (void)dvt_node_walker_init(&runtime, v->major); /* without it samples have no JavaScript frames */
    }
    runtime.runtime_version = runtime_version;
}

static void end_thread(void *unused)
{
    (void)unused;
    dvt_node_walker_stop_thread();
}

/* Once for each environment. */
static void start_walker(napi_env env)
{
    static __thread bool is_hooked;
    if (!runtime.walk || dvt_node_walker_start_thread() != 0)
        return;
    if (!is_hooked && napi_add_env_cleanup_hook(env, end_thread, NULL) != napi_ok)
        dvt_node_walker_stop_thread();
    else
        is_hooked = true;
}

/* NULL for undefined and what is no text. */
static const char *option(napi_env env, napi_value v, char *out, size_t cap)
{
    size_t n;
    return napi_get_value_string_utf8(env, v, out, cap, &n) == napi_ok && n > 0 ? out : NULL;
}

/* start(program, socket, service): undefined, or why the shim is inert. Environments start one after the other: modules are loaded under
 * Node's lock, and a worker's parent has started. */
static napi_value start(napi_env env, napi_callback_info info)
{
    napi_value argv[3];
    size_t argc = 3;
    char socket[DVT_MAX_PATH + 1], service[DVT_MAX_SERVICE + 1];
    if (napi_get_cb_info(env, info, &argc, argv, NULL, NULL) != napi_ok)
        return NULL;
    if (!runtime.runtime_version) {
        set_version(env);
        runtime.program = option(env, argv[0], program, sizeof program);
    }
    const struct dvt_options options = {.socket = option(env, argv[1], socket, sizeof socket),
                                        .service = option(env, argv[2], service, sizeof service)};
    if (dvt_rt_start(&options, &runtime) == 0) {
        dvt_node_lane_watch(v8);
        start_walker(env);
        return NULL;
    }
    return text(env, errno == ECANCELED ? "switched off by DOVETAIL=off" : dvt_last_error());
}

static napi_value stop(napi_env env, napi_callback_info info)
{
    (void)env;
    (void)info;
    dvt_stop(500);
    dvt_node_lane_unwatch();
    dvt_node_walker_stop_thread();
    return NULL;
}

static napi_value active(napi_env env, napi_callback_info info)
{
    napi_value v = NULL;
    (void)info;
    (void)napi_get_boolean(env, dvt_rt_active(), &v); /* undefined, which is false, on failure */
    return v;
}

static napi_value last_error(napi_env env, napi_callback_info info)
{
    (void)info;
    return text(env, dvt_last_error());
}

NAPI_MODULE_INIT()
{
    const struct dvt_node_function functions[] = {
        {"start", start}, {"stop", stop}, {"active", active}, {"error", last_error}};
    if (dvt_node_lane_define(env, exports) != napi_ok ||
        dvt_node_functions(env, exports, functions, sizeof functions / sizeof *functions) != napi_ok)
        (void)napi_throw_error(env, NULL, "no memory, or two environments on one thread");
    return exports;
}
