#include "walker.h"
void dvt_py_walker_init(struct dvt_runtime *rt) { (void)rt; }
void dvt_py_walker_stop(void) {}
struct dvt_py_walker_counts dvt_py_walker_counts(void) { return (struct dvt_py_walker_counts){0}; }
