"""Kernels that choose their configuration by measuring."""

from __future__ import annotations

import logging
import threading

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from tileops_core.kernels import Kernel, tune_store, tuning


class Scaled(Kernel):
    """``x * 2``, said to take as long as its block says."""

    autotune_configs = ({"block": 3}, {"block": 1}, {"block": 2})
    built = 0

    def __init__(self, config=autotune_configs[0]):
        type(self).built += 1
        self.config = config
        self.block = config["block"]

    def with_config(self, config):
        return type(self)(config)

    def forward(self, x, *, bias=None):
        return x * 2 if bias is None else x * 2 + bias


@pytest.fixture(autouse=True)
def clock(monkeypatch, tmp_path):
    """A launch takes as long as its kernel's block, and what is kept belongs to the test."""
    timed = []

    def measure(run, device):
        block = run.args[0].__self__.block
        timed.append(block)
        run()
        return float(block)

    monkeypatch.setattr(tuning, "measure", measure)
    monkeypatch.setenv("TILEOPS_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(Scaled, "built", 0)
    tune_store.forget()
    yield timed
    tune_store.forget()


ORIGIN = tuning.Origin("ProbeFwdOp", "scaled", "vendor", "1.0", ("float32",))
X = torch.arange(4.0)


def tuned(kernel, *inputs, origin=ORIGIN, **named):
    tuning.request(kernel, origin)
    result = kernel(*(inputs or (X,)), **named)
    assert not tuning.is_pending(kernel)
    return result


def test_the_fastest_configuration_takes_over(clock):
    kernel = Scaled()
    assert tuned(kernel).equal(X * 2)
    assert clock == [3, 1, 2]
    assert kernel.config == {"block": 1}
    assert kernel.forward.__self__.block == 1
    assert kernel(X).equal(X * 2)
    assert clock == [3, 1, 2]


def test_nothing_happens_before_the_next_launch(clock):
    kernel = Scaled()
    kernel.request_tune()
    assert tuning.is_pending(kernel)
    assert (clock, Scaled.built) == ([], 1)
    kernel(X)
    assert kernel.config == {"block": 1}


def test_a_kernel_without_configurations_stays_as_it_is():
    class Plain(Kernel):
        def forward(self, x):
            return x

    kernel = Plain()
    kernel.request_tune()
    assert vars(kernel) == {}


def test_a_kernel_that_knows_a_better_way_is_asked_to_go_it():
    asked = []

    class Own(Scaled):
        def request_tune(self):
            asked.append(self)

    kernel = Own()
    tuning.request(kernel, ORIGIN)
    assert asked == [kernel]
    assert not tuning.is_pending(kernel)


def test_the_first_configuration_may_be_the_fastest(clock):
    class Best(Scaled):
        autotune_configs = ({"block": 1}, {"block": 2})

        def __init__(self, config=autotune_configs[0]):
            super().__init__(config)

    kernel = Best()
    tuned(kernel)
    assert kernel.config == {"block": 1}


class WrongFast(Scaled):
    """Its fast configuration computes something else."""

    does = staticmethod(lambda x: x * 3)

    def forward(self, x, *, bias=None):
        return x * 2 if self.block != 1 else self.does(x)


def raise_(x):
    raise RuntimeError("no such block")


WRONG = {
    "numbers": lambda x: x * 3,
    "shape": lambda x: (x * 2)[:2],
    "dtype": lambda x: (x * 2).double(),
    "NaN": lambda x: x * float("nan"),
    "a written input": lambda x: x.mul_(2).clone(),
    "nothing": lambda x: None,
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_computes_something_else_cannot_win(clock, wrong, caplog, monkeypatch):
    monkeypatch.setattr(WrongFast, "does", staticmethod(WRONG[wrong]))
    kernel, x = WrongFast(), X.clone()
    with caplog.at_level(logging.WARNING, "tileops.tune"):
        assert tuned(kernel, x).equal(X * 2)
    assert kernel.config == {"block": 2}
    assert clock == [3, 2]
    assert x.equal(X)
    (record,) = caplog.records
    assert "{'block': 1} is left out: it" in record.message


def test_what_fails_cannot_win(clock, caplog, monkeypatch):
    monkeypatch.setattr(WrongFast, "does", staticmethod(raise_))
    kernel = WrongFast()
    with caplog.at_level(logging.INFO, "tileops.tune"):
        tuned(kernel)
    assert kernel.config == {"block": 2}
    assert "is left out: RuntimeError: no such block" in caplog.text


def test_a_configuration_that_cannot_be_built_cannot_win(clock):
    class Unbuilt(Scaled):
        def with_config(self, config):
            if config["block"] == 1:
                raise ValueError("too much memory")
            return super().with_config(config)

    kernel = Unbuilt()
    tuned(kernel)
    assert kernel.config == {"block": 2}


def test_a_first_configuration_that_fails_leaves_the_kernel_as_it_was(clock, caplog):
    class Broken(Scaled):
        def forward(self, x):
            raise RuntimeError("no device")

    kernel = Broken()
    with pytest.raises(RuntimeError, match="no device"):
        tuned(kernel)
    assert "its first configuration {'block': 3} fails: no device" in caplog.text
    assert not tuning.is_pending(kernel)
    assert clock == []


def test_an_interrupt_leaves_it_to_the_next_launch(clock, monkeypatch):
    kernel = Scaled()
    tuning.request(kernel, ORIGIN)
    with monkeypatch.context() as patch:
        patch.setattr(tuning, "measure", lambda run, device: raise_interrupt())
        with pytest.raises(KeyboardInterrupt):
            kernel(X)
    assert tuning.is_pending(kernel)
    assert kernel.config == {"block": 3}
    kernel(X)
    assert kernel.config == {"block": 1}


def raise_interrupt():
    raise KeyboardInterrupt


def test_the_launchs_own_tensors_are_written_once():
    class InPlace(Scaled):
        def forward(self, x, *, bias=None):
            x += bias

    x = X.clone()
    assert tuned(InPlace(), x, bias=torch.ones(4)) is None
    assert x.equal(X + 1)


def test_arguments_that_are_one_tensor_stay_one(clock):
    class Aliased(Scaled):
        def forward(self, x, *, bias=None):
            x += 1
            return bias * 1

    x = X.clone()
    assert tuned(Aliased(), x, bias=x).equal(X + 1)


@pytest.mark.parametrize("kind", ["meta", "fake"])
def test_a_launch_without_data_does_not_tune(clock, kind):
    kernel = Scaled()
    tuning.request(kernel, ORIGIN)
    kernel(X.to("meta") if kind == "meta" else FakeTensorMode().from_tensor(X))
    assert tuning.is_pending(kernel)
    assert clock == []


def test_one_thread_tunes_and_the_others_do_not_wait(clock, monkeypatch):
    inside, leave = threading.Event(), threading.Event()

    def measure(run, device):
        inside.set()
        assert leave.wait(30)
        return float(run.args[0].__self__.block)

    monkeypatch.setattr(tuning, "measure", measure)
    kernel = Scaled()
    tuning.request(kernel, ORIGIN)
    thread = threading.Thread(target=kernel, args=(X,))
    thread.start()
    assert inside.wait(30)
    assert kernel(X).equal(X * 2)
    assert kernel.config == {"block": 3}
    leave.set()
    thread.join(30)
    assert kernel.config == {"block": 1}


def test_a_forward_that_was_kept_before_leads_to_the_choice():
    kernel = Scaled()
    tuning.request(kernel, ORIGIN)
    kept = kernel.forward
    kept(X)
    assert kept(X).equal(X * 2)
    assert kernel.config == {"block": 1}


def test_a_kernel_may_be_tuned_again(clock, monkeypatch):
    kernel = Scaled()
    tuned(kernel, origin=None)
    monkeypatch.setattr(tuning, "measure", lambda run, device: -run.args[0].__self__.block)
    for _ in range(2):
        tuning.request(kernel, None)
    kernel(X)
    assert kernel.config == {"block": 3}


# -- what is kept -----------------------------------------------------------------------------


def test_a_choice_is_measured_once(clock):
    tuned(Scaled())
    tune_store.forget()
    clock.clear()
    kernel = Scaled()
    assert tuned(kernel).equal(X * 2)
    assert clock == []
    assert kernel.config == {"block": 1}


def test_a_kept_choice_is_checked_before_it_takes_over(clock, monkeypatch):
    """DIS-09: what has become wrong is chosen anew."""
    monkeypatch.setattr(WrongFast, "does", staticmethod(lambda x: x * 2))
    tuned(WrongFast())
    monkeypatch.setattr(WrongFast, "does", staticmethod(lambda x: x * 3))
    clock.clear()
    kernel = WrongFast()
    assert tuned(kernel).equal(X * 2)
    assert kernel.config == {"block": 2}
    assert clock == [3, 2]


OTHERS = {
    "shape": {"inputs": [torch.arange(6.0)]},
    "stride": {"inputs": [torch.arange(8.0)[::2]]},
    "dtype": {"inputs": [X.double()]},
    "identity": {"origin": tuning.Origin("ProbeFwdOp", "scaled", "vendor", "1.0", ("other",))},
    "version": {"origin": tuning.Origin("ProbeFwdOp", "scaled", "vendor", "1.1", ("float32",))},
    "key": {"origin": tuning.Origin("ProbeFwdOp", "other", "vendor", "1.0", ("float32",))},
}


@pytest.mark.parametrize("other", OTHERS)
def test_a_choice_holds_for_what_it_was_measured_on(clock, other):
    """DIS-09"""
    tuned(Scaled())
    clock.clear()
    tuned(Scaled(), *OTHERS[other].get("inputs", [X]), origin=OTHERS[other].get("origin", ORIGIN))
    assert clock == [3, 1, 2]


def test_a_choice_holds_for_its_configurations(clock, monkeypatch):
    tuned(Scaled())
    clock.clear()
    monkeypatch.setattr(Scaled, "autotune_configs", ({"block": 3}, {"block": 1}))
    tuned(Scaled())
    assert clock == [3, 1]


@pytest.mark.parametrize("origin", [None, tuning.Origin("Op", "key", None, None, object())])
def test_what_no_other_process_could_name_is_not_kept(clock, origin, tmp_path):
    tuned(Scaled(), origin=origin)
    assert list(tmp_path.iterdir()) == []


def test_what_was_chosen_is_logged(clock, caplog):
    with caplog.at_level(logging.INFO, "tileops.tune"):
        tuned(Scaled())
        tuned(Scaled())
    first, second = (record.getMessage() for record in caplog.records)
    assert "tuning ProbeFwdOp, kernel 'scaled': {'block': 1}, 1e+06 us where the first" in first
    assert "3 of 3 configurations" in first
    assert second.endswith("{'block': 1}, as was measured before")


# -- the clock --------------------------------------------------------------------------------


def test_a_launch_is_measured_several_times():
    runs = []
    seconds = tuning_measure(lambda: runs.append(1), torch.device("cpu"))
    assert seconds > 0
    assert len(runs) > 2 + 3


tuning_measure = tuning.measure
