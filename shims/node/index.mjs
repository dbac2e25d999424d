// The same for `import` and --import.
import dovetail from './index.js';

export const {scope, label, traceparent, status} = dovetail;
export default dovetail;
