/*
 * places: where the other products lie, found relative to this program: as built, and as installed.
 */
#ifndef PLACES_H
#define PLACES_H

/* The daemon's program: beside this one, else by PATH ("dovetaild"). The caller frees. */
char *places_daemon(void);
/* The folder to put on PYTHONPATH so that every Python loads the shim, or NULL if there is none. The caller
 * frees. */
char *places_python_auto(void);
/* The JVM's agent, or NULL if there is none. The caller frees. */
char *places_jvm_agent(void);
/* The folder of the npm package "dovetail", or NULL if there is none. The caller frees. */
char *places_node_package(void);

#endif
