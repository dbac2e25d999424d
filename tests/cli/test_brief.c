/* brief, library: what the text output leaves out of names, and of whom it thinks a frame is. */
#include "check.h"

#include "../../cli/brief.h"
#include "../../cli/library.h"
#include "../../proto/chunk.h"

#include <stdlib.h>

static void expect(const char *name, const char *brief)
{
    char *got = brief_name(dvt_str(name));
    if (brief) {
        CU_ASSERT_PTR_NOT_NULL_FATAL(got);
        CU_ASSERT_STRING_EQUAL(got, brief);
    } else {
        CU_ASSERT_PTR_NULL(got);
    }
    free(got);
}

static void test_parameters_templates_and_return_types_are_left_out(void)
{
    expect("v8::internal::Builtin_JsonParse(int, unsigned long*, v8::internal::Isolate*)", "v8::internal::Builtin_JsonParse");
    expect("void v8::internal::String::WriteToFlat<unsigned short>(v8::internal::String, int)",
           "v8::internal::String::WriteToFlat");
    expect("heap::base::SlotCallbackResult v8::Scavenger::Evacuate<v8::FullHeapObjectSlot<int> >(v8::Map)",
           "v8::Scavenger::Evacuate");
    expect("v8::(anonymous namespace)::Format(v8::Isolate*, void (*)(int))", "v8::Format");
    expect("v8::JsonParser<unsigned char>::ParseJsonValue<false>(v8::Handle<v8::Object>) [clone .isra.0]",
           "v8::JsonParser::ParseJsonValue");
    expect("icu_78::Formatter::formatDouble(double, UErrorCode&) const", "icu_78::Formatter::formatDouble");
}

static void test_what_cannot_be_told_is_shown_whole(void)
{
    static const char nul[] = "a::b\0<c>";
    static const char *const whole[] = {"malloc",
                                        "std::function<void ()>::operator()() const",
                                        "<T as Trait>::run",
                                        "a::b)c",
                                        "a::b<c",
                                        "(anonymous namespace)::",
                                        "libz.so.1+0x2f30",
                                        ""};
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        expect(whole[i], NULL);
    }
    CU_ASSERT_PTR_NULL(brief_name((struct dvt_str){nul, sizeof nul - 1}));
    CU_ASSERT_PTR_NULL(brief_name((struct dvt_str){0}));
}

static bool is_library(uint8_t kind, const char *name, const char *module)
{
    return library_has(
        &(struct tree_node){.kind = TREE_FRAME, .frame_kind = kind, .name = dvt_str(name), .module = dvt_str(module)});
}

static void test_library_frames_of_each_runtime(void)
{
    CU_ASSERT_TRUE(is_library(DVT_FRAME_MANAGED, "Thread.run", "/usr/lib/python3.11/threading.py"));
    CU_ASSERT_TRUE(is_library(DVT_FRAME_MANAGED, "run_app", "/usr/lib/python3/dist-packages/aiohttp/web.py"));
    CU_ASSERT_TRUE(is_library(DVT_FRAME_JIT, "java.lang.Thread.run", "Thread.java"));
    CU_ASSERT_TRUE(is_library(DVT_FRAME_JIT, "emit", "node:events"));
    CU_ASSERT_TRUE(is_library(DVT_FRAME_JIT, "handle", "/srv/node_modules/express/lib/router.js"));
    CU_ASSERT_TRUE(is_library(DVT_FRAME_MANAGED, "ArrayMap", ""));
    CU_ASSERT_TRUE(is_library(DVT_FRAME_NATIVE, "v8::internal::Builtin_JsonParse", "node"));
    CU_ASSERT_FALSE(is_library(DVT_FRAME_MANAGED, "price", "/srv/shop/pricing.py"));
    CU_ASSERT_FALSE(is_library(DVT_FRAME_JIT, "Orders.nearest", "Orders.java"));
    CU_ASSERT_FALSE(is_library(DVT_FRAME_NATIVE, "sqlite3_step", "libsqlite3.so.0"));
    CU_ASSERT_FALSE(is_library(DVT_FRAME_SPECIAL, "[no stack: window]", ""));
}

static const struct check_case cases[] = {CASE(test_parameters_templates_and_return_types_are_left_out),
                                          CASE(test_what_cannot_be_told_is_shown_whole),
                                          CASE(test_library_frames_of_each_runtime)};
CHECK_MAIN("brief", cases)
