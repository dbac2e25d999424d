/*
 * agent_report: what the JVM's agent answers to the option "report", as the number that Agent_OnAttach returns and the JVM passes
 * on. A number without DVT_REPORT is not an answer to that.
 */
#ifndef DVT_AGENT_REPORT_H
#define DVT_AGENT_REPORT_H

enum dvt_agent_report {
    DVT_REPORT = 1 << 16,
    DVT_REPORT_LIVE = 1,   /* started, and not stopped since */
    DVT_REPORT_HOOKED = 2, /* tracers' classes were looked for; those that come later are patched as they are loaded */
    DVT_REPORT_STACKS = 4, /* Java frames can be walked */
    /* Patched, at any time: */
    DVT_REPORT_OTEL = 8,
    DVT_REPORT_OTEL_AGENT = 16, /* the copy within OpenTelemetry's Java agent */
    DVT_REPORT_BRAVE = 32,
    DVT_REPORT_API = 64, /* io.dovetail's classes are loaded */
};

#endif
