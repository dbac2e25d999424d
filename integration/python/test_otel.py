"""OpenTelemetry's current span is picked up unchanged: ids, parents, names, baggage; truth test."""
import asyncio
import contextvars
import sys
import threading
import unittest
import weakref

from opentelemetry import baggage, context, trace
from opentelemetry.sdk.trace import TracerProvider, sampling
from opentelemetry.trace import INVALID_SPAN, NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

import dovetail
import fakelib
import test_async
from dovetail import _dovetail
from fakelib import REMOTE_PARENT, ROOT, UNSAMPLED, Close, Commit, Open

tracer = TracerProvider().get_tracer("test")
unsampled = TracerProvider(sampler=sampling.ALWAYS_OFF).get_tracer("test")


def hex_ids(span):
    c = span.get_span_context()
    return f"{c.trace_id:032x}", f"{c.span_id:016x}"


def opens():
    return [e for e in fakelib.take() if isinstance(e, Open)]


class Spans(test_async.Case):
    def test_current_span_is_a_scope_with_its_ids_and_name(self):
        with tracer.start_as_current_span("a") as a:
            with tracer.start_as_current_span("b b") as b:
                self.assertEqual(_dovetail._current(), hex_ids(b))
            self.assertEqual(_dovetail._current(), hex_ids(a))
        events = fakelib.take()
        self.assertEqual(fakelib.short(events), ["+a", "+b b", "-b b", "-a"])
        first, second = [e for e in events if isinstance(e, Open)]
        self.assertEqual((first.trace, first.span), hex_ids(a))
        self.assertEqual((first.flags, int(first.parent, 16)), (ROOT, 0))
        self.assertEqual((second.flags, second.parent), (0, first.span))

    def test_span_is_let_go_with_the_next_one(self):
        with tracer.start_as_current_span("a") as span:
            gone = weakref.ref(span)
        del span
        with tracer.start_as_current_span("b"):
            pass
        self.assertIsNone(gone())
        fakelib.take()

    def test_span_not_made_current_is_none(self):
        tracer.start_span("a").end()
        self.assertEqual(fakelib.take(), [])

    def test_remote_parent_is_a_parent_not_a_span(self):
        remote = SpanContext(0xABC, 0xDEF, True, TraceFlags(1))
        token = context.attach(set_span_in_context(NonRecordingSpan(remote)))
        with tracer.start_as_current_span("server"):
            pass
        context.detach(token)
        before, server = opens()
        ids = int(before.trace, 16), int(before.span, 16), int(before.parent, 16)
        self.assertEqual(ids, (0xABC, 0, 0xDEF))
        self.assertEqual((before.flags, before.name), (REMOTE_PARENT, ""))
        self.assertEqual((int(server.trace, 16), int(server.parent, 16)), (0xABC, 0xDEF))
        self.assertEqual(server.flags, REMOTE_PARENT)

    def test_sampled_out_span_is_marked(self):
        with unsampled.start_as_current_span("a"):
            self.assertTrue(dovetail.traceparent().endswith("-00"))
        self.assertEqual(opens()[0].flags, UNSAMPLED)

    def test_invalid_span_is_none(self):
        with tracer.start_as_current_span("a"), trace.use_span(INVALID_SPAN):
            self.assertIsNone(_dovetail._current())
        self.assertEqual(fakelib.story(), ["+a", "-a", "+a", "-a"])

    def test_name_given_late_is_the_name(self):
        fakelib.keep(True)
        with tracer.start_as_current_span("GET") as span:
            span.update_name("GET /users/{id}")
        self.assertEqual([(type(e), e.name) for e in fakelib.take()],
                         [(Open, "GET"), (Close, "GET /users/{id}"), (Commit, "GET /users/{id}")])

    def test_span_ended_but_current_still_counts(self):
        with tracer.start_as_current_span("a") as span:
            span.end()
            self.assertEqual(_dovetail._current(), hex_ids(span))
        self.assertEqual(fakelib.story(), ["+a", "-a"])

    def test_one_span_current_five_times_on_three_threads(self):
        span = tracer.start_span("retry")

        def attempt(times):
            for _ in range(times):
                with trace.use_span(span):
                    pass
        threads = [threading.Thread(target=attempt, args=(n,)) for n in (2, 2, 1)]
        for t in threads:
            t.start()
            t.join()
        scopes = opens()
        self.assertEqual({(o.trace, o.span) for o in scopes}, {hex_ids(span)})
        self.assertEqual((len(scopes), len({o.tid for o in scopes})), (5, 3))

    def test_span_current_twice_at_once_is_one_scope(self):
        with tracer.start_as_current_span("a") as a, trace.use_span(a):
            pass
        self.assertEqual(fakelib.story(), ["+a", "-a"])

    def test_detach_out_of_order_leaves_nothing(self):
        one = context.attach(set_span_in_context(tracer.start_span("one")))
        two = context.attach(set_span_in_context(tracer.start_span("two")))
        context.detach(one)
        self.assertIsNone(_dovetail._current())
        context.detach(two)  # brings "one" back, as contextvars has it
        context.attach(context.Context())
        self.assertIsNone(_dovetail._current())

    def test_attach_never_detached_in_a_thread_ends_with_it(self):
        def leak():
            context.attach(set_span_in_context(tracer.start_span("leak")))
        t = threading.Thread(target=leak)
        t.start()
        t.join()
        self.assertEqual(fakelib.story(), ["+leak", "-leak"])

    def test_executor_task_with_a_copied_context(self):
        with tracer.start_as_current_span("a") as a:
            carried = contextvars.copy_context()
        self.assertEqual(carried.run(_dovetail._current), hex_ids(a))

    def test_library_reads_no_attribute_of_a_foreign_span_class(self):
        class Own(trace.NonRecordingSpan):
            def __getattr__(self, name):
                raise RuntimeError(name)
        fakelib.keep(True)
        with trace.use_span(Own(SpanContext(1, 2, False, TraceFlags(1)))):
            pass
        self.assertEqual(len(fakelib.take()), 3)

    def test_span_class_without_the_sdks_attributes_is_asked(self):
        class Foreign(trace.Span):
            __slots__ = ()

            def get_span_context(self):
                return SpanContext(1, 2, False, TraceFlags(1))

            def nothing(self, *args, **kwargs):
                pass
            end = set_attributes = set_attribute = add_event = nothing
            update_name = set_status = record_exception = nothing

            def is_recording(self):
                return False
        with trace.use_span(Foreign()):
            self.assertEqual(_dovetail._current()[1], "%016x" % 2)


class Labels(test_async.Case):
    def setUp(self):
        super().setUp()
        fakelib.keep(True)

    def labels(self):
        return {e.name: e.labels for e in fakelib.take() if isinstance(e, Commit)}

    def test_allowed_baggage_becomes_labels(self):
        bag = baggage.set_baggage("tenant", "acme")
        bag = baggage.set_baggage("plan", 7, bag)
        bag = baggage.set_baggage("secret", "x", bag)
        with tracer.start_as_current_span("a", context=bag):
            pass
        token = context.attach(bag)
        with tracer.start_as_current_span("b"), dovetail.scope("own", x=1):
            pass
        context.detach(token)
        self.assertEqual(self.labels(), {"a": "", "b": "tenant=acme,plan=7", "own": "x=1,tenant=acme,plan=7"})

    def test_late_label_on_a_span_is_on_its_later_scopes(self):
        with tracer.start_as_current_span("a") as a:
            with tracer.start_as_current_span("b"):
                pass
            dovetail.label(tenant="acme")
        self.assertEqual(self.labels(), {"b": "", "a": "tenant=acme"})
        with trace.use_span(a):
            pass
        self.assertEqual(self.labels(), {"a": "tenant=acme"})
        self.assertNotIn("tenant", a.attributes or {})


class Mixed(test_async.Case):
    def test_own_scope_inside_a_span_is_its_child(self):
        with tracer.start_as_current_span("a") as a, dovetail.scope("own"):
            with tracer.start_as_current_span("inner"):
                pass
        events = fakelib.take()
        self.assertEqual(fakelib.short(events), ["+a", "+own", "+inner", "-inner", "-own", "-a"])
        own = [e for e in events if isinstance(e, Open)][1]
        self.assertEqual((own.trace, own.parent), hex_ids(a))

    def test_traceparent_is_the_innermosts(self):
        with tracer.start_as_current_span("a") as a:
            self.assertEqual(dovetail.traceparent(), "00-%s-%s-01" % hex_ids(a))
            with dovetail.scope("own") as own:
                self.assertEqual(dovetail.traceparent(), own.traceparent())

    def test_task_opens_the_innermost_of_both(self):
        async def main():
            with dovetail.scope("outer"), tracer.start_as_current_span("span"):
                await asyncio.sleep(0)
            with tracer.start_as_current_span("span"), dovetail.scope("inner"):
                await asyncio.sleep(0)
        asyncio.run(main())
        self.assertEqual(fakelib.story(), [
            "+outer", "+span", "-span", "-outer", "+span", "-span", "+outer", "-outer",
            "+span", "+inner", "-inner", "-span", "+inner", "-inner", "+span", "-span"])


class _Expected:
    def __init__(self, truth, expected):
        self.expected = expected
        self.own = truth.rng.random() < 0.2
        self.manager = dovetail.scope("s") if self.own else tracer.start_as_current_span("s")

    def __enter__(self):
        entered = self.manager.__enter__()
        self.expected.append(test_async.span_of(entered) if self.own else hex_ids(entered)[1])

    def __exit__(self, *exc_info):
        self.expected.pop()
        self.manager.__exit__(*exc_info)


class Truth(test_async.Truth):
    def enter(self, expected):
        return _Expected(self, expected)


class TruthTest(test_async.Case):
    def test_the_open_scope_is_the_tasks_in_100_000_checks(self):
        fakelib.logging(False)
        truth = Truth(11)
        asyncio.run(truth.main())
        truth.pool.shutdown()
        print(f"\n{sys.version.split()[0]} otel: {truth.checks} checks, {truth.wrong} wrong")
        self.assertEqual((truth.wrong, truth.samples), (0, []))


if __name__ == "__main__":
    unittest.main()
