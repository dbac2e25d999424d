/*
 * natives: the native methods of the classes in java.lang; the JVM finds them by their names in the agent's library, for which nothing need
 * be registered.
 */
#ifndef DVT_JVM_NATIVES_H
#define DVT_JVM_NATIVES_H

/* Reads the settings that the classes ask for. Before they are defined. */
void dvt_jvm_natives_init(const char *baggage_keys);

#endif
