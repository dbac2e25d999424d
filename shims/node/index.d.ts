export interface ScopeOptions {
  /** W3C header of the request that came in; a bad one is ignored and counted. */
  traceparent?: string;
  /** Keep the scope even if no sample falls inside. */
  always?: boolean;
  /** traceparents of other traces that this scope works for. */
  links?: string[];
  /** Everything else is a label. */
  [label: string]: unknown;
}

/** Runs fn as a scope: what it awaits and calls back later still belongs to it. Returns what fn returns. */
export function scope<T>(name: string, fn: () => T): T;
export function scope<T>(name: string, options: ScopeOptions, fn: () => T): T;
/** Labels the current scope or span, from its start. */
export function label(labels: Record<string, unknown>): void;
/** The W3C traceparent header for an outgoing call. */
export function traceparent(): string | undefined;
/** What the shim does in this process, and why not if it does nothing. */
export function status(): Record<string, unknown>;
