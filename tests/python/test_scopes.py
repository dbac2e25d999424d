"""What dovetail.scope opens and closes, in exact order: nesting, ids, labels, bounds, contexts."""
import contextvars
import gc
import inspect
import random
import threading
import unittest
import weakref

import dovetail
import fakelib
from fakelib import Close, Commit, Open

TP = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Case(unittest.TestCase):
    def setUp(self):
        fakelib.reset()
        self.misuse = fakelib.misuse()

    def tearDown(self):
        self.assertEqual(fakelib.misuse(), self.misuse, "scopes closed out of order")
        self.assertEqual(fakelib.open_scopes(), 0, "scopes left open")


class Nesting(Case):
    def test_nested_scopes_open_and_close_in_order(self):
        with dovetail.scope("a"):
            with dovetail.scope("b"):
                pass
            with dovetail.scope("c"):
                pass
        self.assertEqual(fakelib.story(), ["+a", "+b", "-b", "+c", "-c", "-a"])

    def test_inner_scope_is_child_in_the_same_trace(self):
        with dovetail.scope("a"), dovetail.scope("b"):
            pass
        a, b = [e for e in fakelib.take() if isinstance(e, Open)]
        self.assertEqual(a.trace, b.trace)
        self.assertEqual(b.parent, a.span)
        self.assertNotEqual(b.span, a.span)
        self.assertEqual(int(a.parent, 16), 0)
        self.assertEqual((a.flags, b.flags), (fakelib.ROOT, 0))

    def test_two_roots_have_two_traces(self):
        for _ in range(2):
            with dovetail.scope("a"):
                pass
        first, second = [e for e in fakelib.take() if isinstance(e, Open)]
        self.assertNotEqual(first.trace, second.trace)
        self.assertNotEqual(first.span, second.span)

    def test_exception_closes_the_scope_and_passes(self):
        with self.assertRaises(KeyError):
            with dovetail.scope("a"), dovetail.scope("b"):
                raise KeyError(1)
        self.assertEqual(fakelib.story(), ["+a", "+b", "-b", "-a"])

    def test_exception_is_kept_while_a_kept_scope_is_committed(self):
        fakelib.keep(True)
        with self.assertRaises(KeyError) as caught:
            with dovetail.scope("a", tenant="x"):
                raise KeyError("it")
        self.assertEqual(caught.exception.args, ("it",))

    def test_scope_entered_again_is_a_scope_of_its_own(self):
        s = dovetail.scope("a", tenant="x")
        fakelib.keep(True)
        with s as first, s as second:
            self.assertNotEqual(first.traceparent(), second.traceparent())
        events = fakelib.take()
        self.assertEqual(fakelib.short(events), ["+a", "+a", "-a", "-a"])
        self.assertEqual([e.labels for e in events if isinstance(e, Commit)], ["tenant=x"] * 2)

    def test_task_that_outlives_the_scope_keeps_its_ids_when_it_is_entered_again(self):
        s = dovetail.scope("a")
        with s as first:
            context = contextvars.copy_context()
        with s:
            pass
        self.assertEqual(context.run(dovetail.traceparent), first.traceparent())
        fakelib.take()

    def test_scope_used_again_has_a_new_span(self):
        s = dovetail.scope("a")
        for _ in range(2):
            with s:
                pass
        first, second = [e for e in fakelib.take() if isinstance(e, Open)]
        self.assertNotEqual(first.span, second.span)

    def test_leaving_out_of_order_ends_with_nothing_open(self):
        a, b = dovetail.scope("a"), dovetail.scope("b")
        a.__enter__()
        b.__enter__()
        before = dovetail.status()["misuse"]
        a.__exit__(None, None, None)
        b.__exit__(None, None, None)
        self.assertEqual(dovetail.status()["misuse"], before + 1)
        with dovetail.scope("later"):
            pass
        story = fakelib.story()
        self.assertEqual(story[:3], ["+a", "+b", "-b"])
        a.__exit__(None, None, None)
        contextvars.Context().run(lambda: None)
        dovetail.scope("end").__enter__().__exit__(None, None, None)
        fakelib.take()
        self.unwind()

    def unwind(self):
        """Out-of-order exits leave the outer scope current, as a thread's end would end it. Ends it here."""
        own = [v for v in contextvars.copy_context() if v.name == "dovetail_scope"][0]
        own.set(None)

    def test_deep_nesting_is_bounded_and_unwinds(self):
        scopes = [dovetail.scope(f"d{i}") for i in range(100)]
        for s in scopes:
            s.__enter__()
        self.assertLessEqual(fakelib.open_scopes(), 32)
        for i, s in reversed(list(enumerate(scopes))):
            self.assertEqual(dovetail._dovetail._current()[1], s.traceparent()[36:52])
            s.__exit__(None, None, None)
        self.assertEqual(fakelib.open_scopes(), 0)

    def test_many_scopes_never_left_do_not_overflow_the_stack_when_freed(self):
        def leak():
            for _ in range(200_000):
                dovetail.scope("leak").__enter__()
        fakelib.logging(False)
        contextvars.Context().run(leak)
        fakelib.logging(True)
        fakelib.take()

    def test_thread_that_ends_with_a_scope_open_closes_it(self):
        def leak():
            dovetail.scope("left").__enter__()
        t = threading.Thread(target=leak)
        t.start()
        t.join()
        self.assertEqual(fakelib.story(), ["+left", "-left"])


class Ids(Case):
    def test_traceparent_gives_trace_and_parent(self):
        with dovetail.scope("a", traceparent=TP):
            header = dovetail.traceparent()
        opened = fakelib.take()[0]
        self.assertEqual(opened.trace, "0af7651916cd43dd8448eb211c80319c")
        self.assertEqual(opened.parent, "b7ad6b7169203331")
        self.assertEqual(opened.flags, fakelib.REMOTE_PARENT)
        self.assertEqual(header, f"00-{opened.trace}-{opened.span}-01")

    def test_unsampled_traceparent_is_marked_and_inherited(self):
        with dovetail.scope("a", traceparent=TP[:-2] + "00"), dovetail.scope("b"):
            self.assertTrue(dovetail.traceparent().endswith("-00"))
        a, b = [e for e in fakelib.take() if isinstance(e, Open)]
        self.assertEqual(a.flags, fakelib.REMOTE_PARENT | fakelib.UNSAMPLED)
        self.assertEqual(b.flags, fakelib.UNSAMPLED)

    def test_bad_traceparent_is_ignored(self):
        for bad in ("", "00-00-00-00", None, 7, b"x", TP.upper(), "x" * 10_000):
            with dovetail.scope("a", traceparent=bad):
                pass
            self.assertEqual(fakelib.take()[0].flags, fakelib.ROOT, bad)

    def test_no_scope_has_no_traceparent(self):
        self.assertIsNone(dovetail.traceparent())

    def test_traceparent_works_with_no_daemon(self):
        fakelib.active(False)
        with dovetail.scope("a", traceparent=TP):
            self.assertEqual(dovetail.traceparent()[:36], TP[:36])
        self.assertEqual(fakelib.take(), [])

    def test_links_are_reported(self):
        with dovetail.scope("batch", links=[TP, "bad", TP], always=True):
            pass
        opened, _, commit = fakelib.take()
        self.assertEqual(commit.links, 2)
        self.assertEqual(opened.flags & fakelib.SHARED, fakelib.SHARED)


class Labels(Case):
    def setUp(self):
        super().setUp()
        fakelib.keep(True)

    def commits(self):
        return [e for e in fakelib.take() if isinstance(e, Commit)]

    def test_labels_of_a_kept_scope(self):
        with dovetail.scope("a b", tenant="acme", n=3):
            pass
        (c,) = self.commits()
        self.assertEqual((c.name, c.labels), ("a b", "tenant=acme,n=3"))

    def test_late_label_counts_for_the_whole_scope(self):
        with dovetail.scope("a"):
            with dovetail.scope("b"):
                dovetail.label(tenant="acme")
        b, a = self.commits()
        self.assertEqual((b.labels, a.labels), ("tenant=acme", ""))

    def test_late_label_on_the_scope_object(self):
        with dovetail.scope("a", x=1) as a, dovetail.scope("b"):
            a.label(tenant="acme", x=2)
        b, a = self.commits()
        self.assertEqual((b.labels, a.labels), ("", "x=2,tenant=acme"))

    def test_late_label_is_on_later_residencies(self):
        with dovetail.scope("a"):
            context = contextvars.copy_context()
        fakelib.take()
        context.run(dovetail.label, tenant="acme")
        context.run(lambda: None)
        self.assertEqual([c.labels for c in self.commits()], ["tenant=acme"] * 2)

    def test_more_than_16_labels_are_cut(self):
        with dovetail.scope("a", **{f"k{i}": i for i in range(40)}):
            pass
        self.assertEqual(len(self.commits()[0].labels.split(",")), 16)

    def test_label_that_cannot_be_text_is_left_out(self):
        class Bad:
            def __str__(self):
                raise ValueError
        with dovetail.scope("a", bad=Bad(), lone="\ud800", good=1):
            pass
        self.assertEqual(self.commits()[0].labels, "good=1")

    def test_label_without_scope_does_nothing(self):
        dovetail.label(tenant="acme")
        self.assertEqual(fakelib.take(), [])

    def test_dropped_scopes_count_by_name_and_are_not_committed(self):
        fakelib.keep(False)
        for name in ("a", "b", "a"):
            with dovetail.scope(name):
                pass
        closes = [e for e in fakelib.take() if not isinstance(e, Open)]
        self.assertEqual([(c.fate, c.name) for c in closes],
                         [("dropped", "a"), ("dropped", "b"), ("dropped", "a")])

    def test_always_is_kept(self):
        fakelib.keep(False)
        with dovetail.scope("a", always=True):
            pass
        self.assertEqual([type(e) for e in fakelib.take()], [Open, Close, Commit])


class Contexts(Case):
    def test_context_run_opens_what_is_current_in_it(self):
        with dovetail.scope("a"):
            context = contextvars.copy_context()
        fakelib.take()
        context.run(lambda: None)
        self.assertEqual(fakelib.story(), ["+a", "-a"])

    def test_same_scope_around_is_not_opened_again(self):
        with dovetail.scope("a"):
            contextvars.copy_context().run(lambda: None)
        self.assertEqual(fakelib.story(), ["+a", "-a"])

    def test_empty_context_works_for_nobody(self):
        with dovetail.scope("a"):
            contextvars.Context().run(lambda: self.assertIsNone(dovetail._dovetail._current()))
            self.assertIsNotNone(dovetail._dovetail._current())
        self.assertEqual(fakelib.story(), ["+a", "-a", "+a", "-a"])

    def test_bound_before_import_is_hooked(self):
        with dovetail.scope("a"):
            run = contextvars.copy_context().run
        fakelib.take()
        run(lambda: None)
        self.assertEqual(fakelib.story(), ["+a", "-a"])

    def test_leaving_to_a_scope_not_entered_here_takes_its_place(self):
        def step():
            inner.__exit__(None, None, None)
            return dovetail._dovetail._current()[1]
        context = contextvars.Context()
        outer, inner = dovetail.scope("outer"), dovetail.scope("inner")
        context.run(outer.__enter__)
        context.run(inner.__enter__)
        fakelib.take()
        self.assertEqual(context.run(step), outer.traceparent()[36:52])
        self.assertEqual(fakelib.story(), ["+inner", "-inner", "+outer", "-outer"])

    def test_exception_in_run(self):
        with dovetail.scope("a"):
            context = contextvars.copy_context()
        fakelib.take()
        with self.assertRaises(ZeroDivisionError):
            context.run(lambda: 1 / 0)
        self.assertEqual(fakelib.story(), ["+a", "-a"])

    def test_run_of_an_entered_context_fails_as_ever(self):
        context = contextvars.Context()
        with self.assertRaises(RuntimeError):
            context.run(context.run, lambda: None)
        with self.assertRaises(TypeError):
            context.run()
        self.assertEqual(fakelib.take(), [])

    def test_run_passes_arguments(self):
        got = contextvars.Context().run(lambda *a, **k: (a, k), 1, 2, x=3)
        self.assertEqual(got, ((1, 2), {"x": 3}))

    def test_deep_context_recursion_stays_right(self):
        def down(n):
            if n:
                with dovetail.scope(f"r{n}") as s:
                    contextvars.copy_context().run(down, n - 1)
                    now = dovetail._dovetail._current()
                    if now:  # too deep: nothing, never something wrong
                        self.assertEqual(now[1], s.traceparent()[36:52])
        down(150)
        self.assertGreater(dovetail.status()["too_deep"], 0)
        self.assertEqual(fakelib.open_scopes(), 0)

    def test_scope_set_in_run_and_never_left_closes_with_the_run(self):
        contextvars.Context().run(lambda: dovetail.scope("leak").__enter__())
        self.assertEqual(fakelib.story(), ["+leak", "-leak"])

    def test_daemon_comes_in_the_middle(self):
        fakelib.active(False)
        with dovetail.scope("a"):
            fakelib.active(True)
            with dovetail.scope("b"):
                pass
        self.assertEqual(fakelib.story(), ["+b", "-b", "+a", "-a"])

    def test_daemon_goes_in_the_middle(self):
        with dovetail.scope("a"):
            fakelib.active(False)
        with dovetail.scope("b"):
            pass
        self.assertEqual(fakelib.story(), ["+a", "-a"])

    def test_other_variables_are_let_be(self):
        v = contextvars.ContextVar("current_context")
        w = contextvars.ContextVar("w")
        with dovetail.scope("a"):
            v.reset(v.set(1))
            w.reset(w.set(1))
        self.assertEqual(fakelib.story(), ["+a", "-a"])


class Reuse(Case):
    """A Scope out of reach is used again with its context's map of variables: nothing may tell."""

    def test_copied_context_keeps_its_scope_when_the_object_would_be_used_again(self):
        for others in (0, 1, 3, 40):
            def body(others=others):
                held = [contextvars.ContextVar(f"v{i}") for i in range(others)]
                copies = []
                for _ in range(20):
                    with dovetail.scope("a") as s:
                        copy = contextvars.copy_context()
                        copies.append((s.traceparent(), copy))
                        for v in held:  # maps derived of the one with the scope in it
                            copy.run(v.set, 1)
                    del s
                for expected, copy in copies:
                    self.assertEqual(copy.run(dovetail.traceparent), expected)
            contextvars.Context().run(body)
        fakelib.take()

    def test_labels_and_parents_of_the_last_use_are_gone(self):
        def body():
            fakelib.keep(True)
            with dovetail.scope("a", tenant="x", traceparent=TP, always=True, links=[TP]):
                pass
            fakelib.take()
            with dovetail.scope("b"):
                pass
        contextvars.Context().run(body)
        opened, _, commit = sorted(fakelib.take(), key=lambda e: [Open, Close, Commit].index(type(e)))
        self.assertEqual((opened.flags, int(opened.parent, 16), commit.labels), (fakelib.ROOT, 0, ""))

    def test_variable_set_inside_stays_set_after(self):
        v, w = contextvars.ContextVar("v"), contextvars.ContextVar("w")

        def body():
            for i in range(10):
                with dovetail.scope("a"):
                    v.set(i)
                    with dovetail.scope("b"):
                        w.set(i)
                    self.assertEqual(w.get(), i)
                self.assertEqual((v.get(), w.get()), (i, i))
                self.assertIsNone(dovetail.traceparent())
        contextvars.Context().run(body)
        fakelib.take()

    def test_variable_set_by_a_finalizer_while_a_scope_is_entered_is_not_lost(self):
        """Before 3.12 a collection in the middle of a ContextVar.set loses it, or crashes: ours must not let one in."""
        v = contextvars.ContextVar("v")

        class Cycle:
            def __init__(self, value):
                self.me, self.value = self, value

            def __del__(self):
                v.set(self.value)

        def lost():
            count = 0
            for threshold in range(1, 30):  # allocations until the collector runs
                gc.disable()
                v.set(0)
                Cycle(threshold)
                gc.set_threshold(threshold)
                gc.enable()
                with dovetail.scope("a"):
                    pass
                self.assertTrue(gc.isenabled())
                gc.disable()  # from here to the count none but collect's
                gc.collect()
                count += contextvars.copy_context().get(v) != threshold
            return count
        before = gc.get_threshold()
        try:
            self.assertEqual(contextvars.Context().run(lost), 0)
        finally:
            gc.set_threshold(*before)
            gc.enable()
        fakelib.take()

    def test_values_of_other_variables_are_not_held_after(self):
        class Request:
            pass
        v = contextvars.ContextVar("v")

        def body():
            request = Request()
            token = v.set(request)
            with dovetail.scope("a"), dovetail.scope("b"):
                pass
            v.reset(token)
            del token
            return weakref.ref(request)
        self.assertIsNone(contextvars.Context().run(body)())
        fakelib.take()

    def test_random_walk_over_contexts_agrees_with_a_model(self):
        for seed in range(30):
            Walk(self, seed).run()
        fakelib.take()


class Walk:
    """Scopes, other variables and copied contexts at random. The model: each context's stack of traceparents,
    copied with it."""

    def __init__(self, case, seed):
        self.case, self.rng, self.kept = case, random.Random(seed), []
        self.others = [contextvars.ContextVar(f"o{i}") for i in range(self.rng.choice((0, 1, 2, 40)))]

    def run(self):
        contextvars.Context().run(self.walk, [None], {}, 0)
        for context, top in self.kept:
            self.case.assertEqual(context.run(dovetail.traceparent), top)

    def walk(self, stack, values, depth):
        for _ in range(self.rng.randrange(2, 7)):
            self.step(stack, values, depth)
            self.case.assertEqual(dovetail.traceparent(), stack[-1])
            for var in self.others:
                self.case.assertEqual(var.get(None), values.get(var))

    def step(self, stack, values, depth):
        what = self.rng.random()
        if what < 0.2 and self.others:
            var = self.rng.choice(self.others)
            values[var] = self.rng.random()
            var.set(values[var])
        elif what < 0.4:
            self.kept.append((contextvars.copy_context(), stack[-1]))
        elif what < 0.5:
            context, top = contextvars.copy_context(), stack[-1]
            if depth < 5:
                context.run(self.walk, [top], dict(values), depth + 1)
            self.kept.append((context, top))
        elif depth < 5:
            with dovetail.scope("s") as scope:
                held = scope if self.rng.random() < 0.2 else None
                stack.append(scope.traceparent())
                del scope
                self.walk(stack, values, depth + 1)
                stack.pop()
                if held and self.rng.random() < 0.5:
                    self.kept.append((contextvars.copy_context(), held.traceparent()))


class Decorator(Case):
    def test_function_has_a_scope_for_each_call(self):
        @dovetail.scope("f", tenant="acme")
        def f(x, y=1):
            """doc"""
            return x + y
        self.assertEqual((f(1), f(1, y=5), f.__name__, f.__doc__), (2, 6, "f", "doc"))
        opens = [e for e in fakelib.take() if isinstance(e, Open)]
        self.assertEqual(len({o.span for o in opens}), 2)

    def test_recursive_function(self):
        @dovetail.scope("f")
        def f(n):
            return n and f(n - 1)
        f(2)
        self.assertEqual(fakelib.story(), ["+f"] * 3 + ["-f"] * 3)

    def test_async_function_stays_one(self):
        @dovetail.scope("f")
        async def f():
            return 7
        self.assertTrue(inspect.iscoroutinefunction(f))

    def test_generators_are_refused(self):
        def g():
            yield
        with self.assertRaises(TypeError):
            dovetail.scope("g")(g)


class WrongUse(Case):
    def test_names_of_any_kind(self):
        for name in (7, None, "", "\ud800", "x" * 10_000, 'q"\n<b>'):
            with dovetail.scope(name):
                pass
        self.assertEqual(len([s for s in fakelib.take() if isinstance(s, Close)]), 6)

    def test_wrong_arguments_are_type_errors(self):
        for args in ((), ("a", "b")):
            with self.assertRaises(TypeError):
                dovetail.scope(*args)

    def test_exit_without_enter_is_counted(self):
        before = dovetail.status()["misuse"]
        dovetail.scope("a").__exit__(None, None, None)
        self.assertEqual(dovetail.status()["misuse"], before + 1)


if __name__ == "__main__":
    unittest.main()
