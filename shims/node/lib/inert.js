/*
 * The API where the shim cannot run (no build for this platform, a damaged one, an old Node): applications keep
 * working.
 */
'use strict';

exports.because = error => ({
  scope: (name, options, fn) => (typeof options === 'function' ? options() : fn()),
  label() {},
  traceparent: () => undefined,
  status: () => ({enabled: false, active: false, error: String(error && error.message || error)}),
});
