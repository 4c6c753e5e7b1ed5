from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileops_core.backend.blame import add_note
from tileops_core.errors import BackendError, DispatchError, OpNotAvailableError
from tileops_core.kernels import call_spec
from tileops_core.kernels.builds import BuildOnce
from tileops_core.kernels.contracts import install
from tileops_core.kernels.dispatch import check_factory, decide, entry_for, forward_of

CUDA_ONLY = frozenset({"cuda"})
CPU_ONLY = frozenset({"cpu"})


@pytest.fixture
def ask(bench):
    """Install kernel types and decide a call on one device."""

    def decided(*registered, own=None, device="cpu", call=None, **how):
        installed = bench.install(*registered, own=own)
        assert installed.faults == ()
        return decide(installed, bench.op, "norm", call or bench.NormCall(device), **how)

    return decided


def outcomes(decision):
    return {verdict.candidate.key: verdict.outcome for verdict in decision.verdicts}


def reason(decision, key):
    return next(v.reason for v in decision.verdicts if v.candidate.key == key)


def test_an_interface_that_the_op_does_not_have_is_told_with_a_guess(bench):
    """DIS-06: a misspelled call place is an error with the near matches."""
    with pytest.raises(
        OpNotAvailableError, match=r"'norms' \(did you mean 'norm'\?\).*norm, stats"
    ):
        decide(bench.install(), bench.op, "norms", bench.NormCall("cpu"))


def test_the_only_kernel_type_that_serves_the_call_is_chosen(ask, bench):
    decision = ask(own={"a": bench.kernel()})
    assert decision.require().key == "a"
    assert outcomes(decision) == {"a": "chosen"}


def test_a_kernel_type_for_other_devices_is_dropped(ask, bench):
    decision = ask(own={"a": bench.kernel(devices=CUDA_ONLY), "b": bench.kernel(devices=CPU_ONLY)})
    assert decision.require().key == "b"
    assert reason(decision, "a") == "runs on cuda, not cpu"


@pytest.mark.parametrize(
    ("devices", "says"),
    [
        (
            {"cdua"},
            "runs on cdua, not cpu; torch knows no device type 'cdua' (did you mean 'cuda'?)",
        ),
        ({"gpu"}, "runs on gpu, not cpu; torch knows no device type 'gpu' (did you mean 'cuda'?)"),
        (
            {"CUDA"},
            "runs on CUDA, not cpu; torch knows no device type 'CUDA' (did you mean 'cuda'?)",
        ),
        (
            {"acme"},
            "runs on acme, not cpu; torch knows no device type 'acme' here, others are cpu,",
        ),
        ({"meta"}, "runs on meta, not cpu"),
    ],
)
def test_a_device_type_that_torch_does_not_know_gets_a_hint(ask, bench, devices, says):
    """A vendor's type is known once its extension of torch is imported, so it is no error."""
    decision = ask(own={"a": bench.kernel(devices=frozenset(devices)), "b": bench.kernel()})
    assert reason(decision, "a").startswith(says)
    assert ("torch knows" in reason(decision, "a")) == (devices != {"meta"})


def test_a_kernel_type_for_other_archs_is_dropped(ask, bench):
    own = {
        f"sm{arch}": bench.kernel(devices=CUDA_ONLY, supported_archs=frozenset({arch}))
        for arch in (80, 90)
    }
    decision = ask(own=own, call=bench.NormCall("cuda:0").stating(arch=90))
    assert decision.require().key == "sm90"
    assert reason(decision, "sm80") == "is built for arch 80, cuda:0 has 90"


def test_a_kernel_type_with_archs_is_dropped_where_the_device_has_none(ask, bench):
    own = {"a": bench.kernel(devices=CPU_ONLY, supported_archs=frozenset({1})), "b": bench.kernel()}
    assert ask(own=own).require().key == "b"


def test_the_arch_is_not_read_for_kernel_types_of_other_devices(ask, bench, monkeypatch):
    """DIS-06: a machine that lacks one candidate's capability uses another."""

    def read(device):
        raise AssertionError(f"the arch of {device} was read")

    monkeypatch.setattr(call_spec, "facts_of", read)
    own = {
        "sm90": bench.kernel(devices=CUDA_ONLY, supported_archs=frozenset({90})),
        "b": bench.kernel(devices=CPU_ONLY),
    }
    assert ask(own=own).require().key == "b"


def test_a_kernel_type_that_refuses_is_dropped_with_its_reason(ask, bench):
    decision = ask(own={"a": bench.kernel(refusing="rows must be even"), "b": bench.kernel()})
    assert decision.require().key == "b"
    assert outcomes(decision)["a"] == "refused"
    assert reason(decision, "a") == "refuses: rows must be even"


def test_a_refusal_sees_the_call_spec(ask, bench):
    own = {"a": bench.kernel(refusing=lambda call: "odd" if call.rows % 2 else None)}
    assert ask(own=own, call=bench.NormCall("cpu", 2)).chosen.key == "a"
    assert ask(own=own, call=bench.NormCall("cpu", 3)).chosen is None


def test_a_preferred_kernel_type_wins(ask, bench):
    own = {"a": bench.kernel(), "b": bench.kernel(preferred_over=frozenset({"a", "absent"}))}
    decision = ask(own=own)
    assert decision.require().key == "b"
    assert reason(decision, "a") == "'b' is preferred over it"


def test_preference_holds_through_one_that_refuses(ask, bench):
    own = {
        "a": bench.kernel(preferred_over=frozenset({"b"})),
        "b": bench.kernel(preferred_over=frozenset({"c"}), refusing="not today"),
        "c": bench.kernel(),
    }
    assert ask(own=own).require().key == "a"


def test_one_that_refuses_prefers_nothing(ask, bench):
    own = {
        "a": bench.kernel(preferred_over=frozenset({"b"}), refusing="not today"),
        "b": bench.kernel(),
    }
    assert ask(own=own).require().key == "b"


def test_general_ones_rank_below_all_others(ask, bench):
    decision = ask(own={"a": bench.kernel(general=True), "b": bench.kernel()})
    assert decision.require().key == "b"
    assert reason(decision, "a") == "is general for any device, so 'b' goes before"


def test_a_general_one_for_any_device_ranks_below_one_that_names_devices(ask, bench):
    decision = ask(
        bench.registered("acme", a=bench.kernel(general=True)),
        bench.registered("zeta", b=bench.kernel(general=True, devices=CPU_ONLY)),
    )
    assert decision.require().key == "b"


def test_one_that_defers_ranks_below_the_general_one(ask, bench):
    decision = ask(
        own={"a": bench.kernel(general=True), "b": bench.kernel(deferring="torch is faster")}
    )
    assert decision.require().key == "a"
    assert outcomes(decision)["b"] == "outranked"
    assert reason(decision, "b") == "defers to 'a': torch is faster"


def test_one_that_defers_serves_where_its_backend_is_named(ask, bench):
    items = [
        *bench.registered("reference", r=bench.kernel(general=True)),
        *bench.registered("acme", a=bench.kernel(deferring="torch is faster")),
    ]
    decision = ask(items, backend="acme")
    assert decision.require().key == "a"
    assert outcomes(decision)["r"] == "other backend"
    assert reason(decision, "a") == "serves this call, although it defers: torch is faster"


def test_one_that_defers_serves_where_nobody_else_does(ask, bench):
    own = {"a": bench.kernel(deferring="slow"), "b": bench.kernel(general=True, refusing="no")}
    assert ask(own=own).require().key == "a"


def test_one_that_defers_wins_nothing_by_preference(ask, bench):
    own = {
        "a": bench.kernel(deferring="slow", preferred_over=frozenset({"b"})),
        "b": bench.kernel(),
    }
    assert ask(own=own).require().key == "b"


def test_no_kernel_type_for_the_device_is_not_available(ask, bench):
    decision = ask(bench.registered("acme", a=bench.kernel(devices=CUDA_ONLY)))
    with pytest.raises(OpNotAvailableError, match="in-tree kernels do not run on cpu") as caught:
        decision.require()
    assert "'a' (acme): runs on cuda, not cpu" in str(caught.value)
    assert "pip install tileops-reference" in str(caught.value)
    assert caught.value.op == "ProbeFwdOp"


def test_no_kernel_type_at_all_is_not_available(ask):
    with pytest.raises(OpNotAvailableError, match="no kernel type of 'norm' is installed"):
        ask().require()


def test_a_named_backend_without_kernels_for_the_device_is_not_available(ask, bench):
    items = [
        *bench.registered("acme", a=bench.kernel(devices=CUDA_ONLY)),
        *bench.registered("zeta", z=bench.kernel()),
    ]
    with pytest.raises(OpNotAvailableError, match="backend 'acme' do not run on cpu") as caught:
        ask(items, backend="acme").require()
    assert "zeta" not in str(caught.value)
    assert (caught.value.backend, caught.value.target) == ("acme", "acme")


def test_no_kernel_type_for_the_call_is_a_dispatch_error_with_every_reason(ask, bench):
    items = [
        *bench.registered("acme", a=bench.kernel(refusing="rows must be even")),
        *bench.registered("zeta", z=bench.kernel(devices=CUDA_ONLY)),
    ]
    with pytest.raises(DispatchError, match="no implementation serves this call") as caught:
        ask(items).require()
    text = str(caught.value)
    assert "NormCall(device=cpu, rows=1, eps=1e-05)" in text
    assert "'a' (acme): refuses: rows must be even" in text
    assert "'z' (zeta): runs on cuda, not cpu" in text


def test_where_the_general_one_refuses_too_no_other_is_advertised(ask, bench):
    own = {"a": bench.kernel(general=True, refusing="float64 is for oracles")}
    with pytest.raises(DispatchError, match="even the general implementation does not") as caught:
        ask(own=own).require()
    assert "pip install" not in str(caught.value)


def test_a_named_backend_that_refuses_says_that_others_were_not_asked(ask, bench):
    items = [
        *bench.registered("acme", a=bench.kernel(refusing="no")),
        *bench.registered("zeta", z=bench.kernel()),
    ]
    with pytest.raises(DispatchError, match="without target='acme' other backends are asked too"):
        ask(items, backend="acme").require()


def test_a_tie_is_ambiguous_and_names_the_targets_that_decide(ask, bench):
    items = [
        *bench.registered("zeta", z=bench.kernel()),
        *bench.registered("acme", a=bench.kernel()),
    ]
    decision = ask(items)
    assert outcomes(decision) == {"a": "tied", "z": "tied"}
    assert decision.deciding == ("acme", "zeta")
    with pytest.raises(DispatchError, match="dispatch is ambiguous") as caught:
        decision.require()
    text = str(caught.value)
    assert "'a' (acme) and 'z' (zeta) serve it equally" in text
    assert "pass target='acme' or target='zeta', or order the backends" in text


@pytest.mark.parametrize("name", ["acme", "zeta"])
def test_each_target_that_an_ambiguity_names_decides_it(ask, bench, name):
    items = [
        *bench.registered("zeta", z=bench.kernel()),
        *bench.registered("acme", a=bench.kernel()),
    ]
    assert ask(items, backend=name).require().backend == name


def test_only_targets_that_decide_are_named(ask, bench):
    items = [
        *bench.registered("zeta", y=bench.kernel(), z=bench.kernel()),
        *bench.registered("acme", a=bench.kernel()),
    ]
    assert ask(items).deciding == ("acme",)


def test_a_kernel_type_beaten_by_another_backend_counts_when_its_own_is_named(ask, bench):
    """Naming 'zeta' leaves y and z, since what beats y is then not asked."""
    items = [
        *bench.registered("zeta", y=bench.kernel(), z=bench.kernel()),
        *bench.registered("acme", a=bench.kernel(preferred_over=frozenset({"y"}))),
    ]
    decision = ask(items)
    assert outcomes(decision) == {"a": "tied", "y": "beaten", "z": "tied"}
    assert decision.deciding == ("acme",)


def test_a_tie_within_one_backend_asks_for_a_preference(ask, bench):
    with pytest.raises(DispatchError, match="must name the other in preferred_over"):
        ask(own={"a": bench.kernel(), "b": bench.kernel()}).require()


def test_the_user_s_order_of_backends_breaks_a_tie(ask, bench):
    items = [
        *bench.registered("zeta", z=bench.kernel()),
        *bench.registered("acme", a=bench.kernel()),
    ]
    decision = ask(items, order=("absent", "zeta", "acme"))
    assert decision.require().key == "z"
    assert outcomes(decision)["a"] == "order"
    assert reason(decision, "a") == "the order of backends puts 'zeta' first"
    assert ask(items, order=("acme",)).require().key == "a"


def test_the_order_of_backends_decides_ties_only(ask, bench):
    items = [
        *bench.registered("zeta", z=bench.kernel()),
        *bench.registered("acme", a=bench.kernel(preferred_over=frozenset({"z"}))),
        *bench.registered("reference", r=bench.kernel(general=True)),
    ]
    assert ask(items, order=("reference", "zeta", "acme")).require().key == "a"


def test_an_order_that_names_none_of_the_tied_leaves_the_tie(ask, bench):
    items = [
        *bench.registered("zeta", z=bench.kernel()),
        *bench.registered("acme", a=bench.kernel()),
    ]
    assert ask(items, order=("absent",)).chosen is None


def test_a_tie_within_the_first_backend_of_the_order_stays_a_tie(ask, bench):
    items = [
        *bench.registered("zeta", y=bench.kernel(), z=bench.kernel()),
        *bench.registered("acme", a=bench.kernel()),
    ]
    decision = ask(items, order=("zeta", "acme"))
    assert outcomes(decision) == {"a": "order", "y": "tied", "z": "tied"}


def test_the_tie_of_an_own_kernel_type_can_be_decided_by_the_other_s_backend(ask, bench):
    decision = ask(bench.registered("acme", a=bench.kernel()), own={"own": bench.kernel()})
    assert decision.deciding == ("acme",)


PREFERENCES = {"a": {"b"}, "b": {"d"}, "c": {"d"}, "d": set(), "e": {"absent"}}


@given(
    order=st.permutations(sorted(PREFERENCES)),
    refusing=st.sets(st.sampled_from(sorted(PREFERENCES))),
    deferring=st.sets(st.sampled_from(sorted(PREFERENCES))),
    general=st.sets(st.sampled_from("de")),
)
def test_the_order_of_registration_never_decides(bench, order, refusing, deferring, general):
    items = {
        key: bench.registered(
            f"backend_{key}",
            **{
                key: bench.kernel(
                    refusing="no" if key in refusing else None,
                    deferring="slow" if key in deferring else None,
                    general=key in general,
                    preferred_over=frozenset(() if key in general else PREFERENCES[key]),
                )
            },
        )[0]
        for key in order
    }
    call = bench.NormCall("cpu")
    one, other = (
        decide(install(bench.op, bench.interfaces, {}, arranged), bench.op, "norm", call)
        for arranged in ([items[key] for key in order], [items[key] for key in sorted(items)])
    )
    assert [(str(v), v.outcome) for v in one.verdicts] == [
        (str(v), v.outcome) for v in other.verdicts
    ]
    assert (one.chosen and one.chosen.key) == (other.chosen and other.chosen.key)
    assert one.deciding == other.deciding


@pytest.mark.parametrize("question", ["refusing", "deferring"])
def test_an_exception_of_a_kernel_type_says_whose_it_is(ask, bench, question):
    def answer(call):
        raise ZeroDivisionError("rows")

    items = bench.registered("acme", a=bench.kernel(**{question: answer}), b=bench.kernel())
    with pytest.raises(ZeroDivisionError) as caught:
        ask(items)
    (note,) = caught.value.__notes__
    assert "ProbeFwdOp" in note
    assert "backend 'acme' version 1.2" in note


@pytest.mark.parametrize("question", ["refusing", "deferring"])
@pytest.mark.parametrize("answer", [True, False, 0, ("no",)])
def test_an_answer_that_is_neither_text_nor_none_is_a_fault(ask, bench, question, answer):
    items = bench.registered("acme", a=bench.kernel(**{question: lambda call: answer}))
    with pytest.raises(BackendError, match=r"'a' \(acme\): (refusal|defers) returned") as caught:
        ask(items)
    assert repr(answer) in str(caught.value)
    assert caught.value.backend == "acme"


def test_an_empty_text_is_a_reason(ask, bench):
    assert outcomes(ask(own={"a": bench.kernel(refusing="")})) == {"a": "refused"}


def test_verdicts_cover_every_kernel_type_of_the_interface_alone(ask, bench):
    own = {
        "b": bench.kernel(),
        "a": bench.kernel(general=True),
        "s": bench.kernel(interface=bench.StatsKernel),
    }
    assert [v.candidate.key for v in ask(own=own).verdicts] == ["a", "b"]


@pytest.fixture
def entry(bench):
    """What a kernel type with the given ``entry_for`` builds for a call."""

    def asked(give, call=None):
        kernel_type = bench.kernel(entry_for=classmethod(lambda cls, call: give(call)))
        (candidate,) = bench.install(bench.registered("acme", a=kernel_type)).candidates("norm")
        return entry_for(candidate, bench.op, call or bench.NormCall("cpu"))

    return asked


def test_an_entry_is_kept_by_kernel_type_device_type_arch_and_identity(entry):
    key, factory = entry(lambda call: (("fp16", 8), dict))
    kernel_type, device_type, arch, identity, _ = key
    assert (kernel_type.__name__, device_type, arch, identity) == (
        "Probe",
        "cpu",
        None,
        ("fp16", 8),
    )
    assert factory is dict


@pytest.mark.parametrize("pair", list(itertools.combinations([1, True, 1.0], 2)))
def test_identities_that_python_merges_build_apart(entry, pair):
    """DIS-03: what is compiled in differs, so the program does."""
    table = BuildOnce()
    for value in pair:
        key, factory = entry(lambda call, value=value: (value, lambda: repr(value)))
        assert table.get((key[0].__name__, *key[1:]), factory) == repr(value)


def test_the_identity_may_be_nan(entry):
    """DIS-03: one build, however often it is asked for."""
    keys = {entry(lambda call: ((float("nan"),), dict))[0][1:] for _ in range(100)}
    assert len(keys) == 1


@pytest.mark.parametrize("answer", [None, dict, (dict,), ((), 3), [(), dict], ((), dict, 1)])
def test_something_else_than_an_identity_and_a_factory_is_a_fault(entry, answer):
    with pytest.raises(
        BackendError, match=r"'a' \(acme\): entry_for returned .*\(identity, factory\)"
    ):
        entry(lambda call: answer)


def test_a_kernel_in_the_place_of_what_builds_it_is_a_fault(entry, bench):
    """Of a kernel too it holds that it can be called."""
    with pytest.raises(
        BackendError, match=r"'a' \(acme\): entry_for gave the built kernel .*cls\("
    ):
        entry(lambda call: ((), bench.kernel()()))


def test_a_kernel_alone_is_told_with_what_was_due(entry, bench):
    with pytest.raises(BackendError, match=r"'a' \(acme\): entry_for returned .*lambda: cls\("):
        entry(lambda call: bench.kernel()())


def test_a_factory_that_takes_arguments_is_told_with_what_was_due(bench):
    (candidate,) = bench.install(bench.registered("acme", a=bench.kernel())).candidates("norm")
    with pytest.raises(BackendError, match=r"takes arguments \(missing .*'dim'\).*lambda: cls\("):
        check_factory(candidate, bench.op, lambda dim: dim)
    for factory in (dict, lambda dim=1: dim):
        check_factory(candidate, bench.op, factory)


def test_an_identity_that_is_no_key_is_a_fault(entry):
    with pytest.raises(BackendError, match=r"identity \[1\], which is no key: .*pass a tuple"):
        entry(lambda call: ([1], dict))


def test_an_exception_of_entry_for_says_whose_it_is(entry):
    def give(call):
        error = LookupError("no table")
        add_note(error, "from the author")
        raise error

    with pytest.raises(LookupError, match="no table") as caught:
        entry(give)
    assert caught.value.__notes__[0] == "from the author"
    assert "backend 'acme' version 1.2" in caught.value.__notes__[1]


def test_a_call_spec_of_another_interface_is_refused(bench):
    with pytest.raises(TypeError, match=r"ProbeFwdOp: NormKernel .* a NormCall, got StatsCall"):
        decide(bench.install(), bench.op, "norm", bench.StatsCall("cpu"))


def test_an_entry_is_called_by_its_forward_or_itself(bench):
    (candidate,) = bench.install(own={"a": bench.kernel()}).candidates("norm")
    kernel = candidate.kernel_type()
    assert forward_of(candidate, bench.op, kernel) == kernel.forward
    assert forward_of(candidate, bench.op, len) is len


@pytest.mark.parametrize("entry", [None, 3, "kernel", dict, (len, len)])
def test_an_entry_that_is_no_kernel_is_a_fault(bench, entry):
    (candidate,) = bench.install(bench.registered("acme", a=bench.kernel())).candidates("norm")
    with pytest.raises(BackendError, match=r"'a' \(acme\): its factory returned") as caught:
        forward_of(candidate, bench.op, entry)
    assert repr(entry) in str(caught.value)
