/* The gateway's tracing by OpenTelemetry; of Dovetail it knows nothing. */
'use strict';

const {context, propagation, trace, SpanKind} = require('@opentelemetry/api');
const {NodeTracerProvider} = require('@opentelemetry/sdk-trace-node');

new NodeTracerProvider().register();
const tracer = trace.getTracer('gateway');

/* A request that came in: its trace goes on, or begins. Its tenant is known to all who work for it. */
exports.request = (name, headers, tenant, fn) => {
  const incoming = propagation.extract(context.active(), headers);
  const baggage = propagation.createBaggage({tenant: {value: tenant}});
  return tracer.startActiveSpan(name, {kind: SpanKind.SERVER}, propagation.setBaggage(incoming, baggage), async span => {
    try {
      return await fn();
    } finally {
      span.end();
    }
  });
};

/* What an outgoing request takes along. */
exports.headers = () => {
  const carrier = {};
  propagation.inject(context.active(), carrier);
  return carrier;
};
