/* v8: see v8.h. */
#include "v8.h"

#include <dlfcn.h>
#include <string.h>

static struct dvt_v8 v8;

/* A function pointer of any type out of dlsym's object pointer (POSIX has them of one size). */
static bool find(const char *name, void *function)
{
    void *p = dlsym(RTLD_DEFAULT, name);
    memcpy(function, &p, sizeof p);
    return p != NULL;
}

/* Tested by integration/node on x86-64 alone. */
static bool is_tested(uint32_t major)
{
#if defined(__x86_64__)
    return major == 18 || major == 20 || major == 22 || major == 24;
#else
    (void)major;
    return false;
#endif
}

const struct dvt_v8 *dvt_v8(uint32_t node_major)
{
    bool ok = is_tested(node_major) && find("_ZN2v87Isolate10GetCurrentEv", &v8.current) &&
              find("_ZN2v87Isolate14GetStackSampleERKNS_13RegisterStateEPPvmPNS_10SampleInfoE", &v8.sample) &&
              find("_ZN2v87Isolate22SetJitCodeEventHandlerENS_19JitCodeEventOptionsEPFvPKNS_12JitCodeEventEE",
                   &v8.on_code) &&
              find("_ZN2v87Isolate12GetCodeRangeEPPvPm", &v8.code_range) &&
              find("_ZN2v813UnboundScript13GetLineNumberEi", &v8.line) &&
              find("_ZN2v87Isolate30AddMicrotasksCompletedCallbackEPFvPS0_PvES2_", &v8.on_microtasks) &&
              find("_ZN2v87Isolate33RemoveMicrotasksCompletedCallbackEPFvPS0_PvES2_", &v8.off_microtasks) &&
              find("_ZN2v811HandleScopeC1EPNS_7IsolateE", &v8.open_handles) &&
              find("_ZN2v811HandleScopeD1Ev", &v8.close_handles) &&
              find("_ZN2v87Isolate13CopyCodePagesEmPNS_11MemoryRangeE", &v8.code_pages);
    return ok ? &v8 : NULL;
}
