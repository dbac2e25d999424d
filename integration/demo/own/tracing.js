/* The gateway's tracing by Dovetail's own API. */
'use strict';

const dovetail = require('dovetail');

/* A request that came in: its trace goes on, or begins. Its tenant is known to all who work for it. */
exports.request = (name, headers, tenant, fn) => dovetail.scope(name, {traceparent: headers.traceparent, tenant}, fn);

/* What an outgoing request takes along. */
exports.headers = () => ({traceparent: dovetail.traceparent()});
