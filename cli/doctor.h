/*
 * doctor: what one check of `dovetail doctor` found. The checks are in doctor_checks.c, how they are told in
 * cmd_doctor.c.
 */
#ifndef DOCTOR_H
#define DOCTOR_H

#include <stdbool.h>
#include <stddef.h>

enum doctor_verdict { DOCTOR_OK, DOCTOR_WARN, DOCTOR_BAD }; /* bad: sampling is impossible */

struct doctor_finding {
    enum doctor_verdict verdict;
    const char *name;
    char *text;   /* what is so; owned */
    char *remedy; /* a command or what to do; NULL if nothing is to be done; owned */
};
struct doctor_report {
    struct doctor_finding *findings;
    size_t n, cap;
};
void doctor_add(struct doctor_report *r, enum doctor_verdict verdict, const char *name, const char *remedy,
                const char *fmt, ...) __attribute__((format(printf, 5, 6)));
void doctor_fini(struct doctor_report *r);

/* All checks, in the order they are told. dir: the store to look at; socket: NULL for the usual ones. */
void doctor_check_kernel(struct doctor_report *r);
void doctor_check_limits(struct doctor_report *r);
void doctor_check_daemon(struct doctor_report *r, const char *socket);
void doctor_check_store(struct doctor_report *r, const char *dir);
void doctor_check_python(struct doctor_report *r);

/* The verdict on sampling: pure, for tests. opens: a cpu-clock event on the own thread opened. */
enum doctor_verdict doctor_judge_paranoid(int paranoid, bool has_perfmon, bool opens);

#endif
