"""Instances of every public class survive every pickle protocol, copy and deepcopy."""

import copy
import inspect
import pickle
import types
import warnings
from collections.abc import Mapping
from functools import cache, cached_property

import numpy as np
import pytest
import scipy.sparse
from numpy.random import RandomState

import sknet
from sknet import MLPClassifier, Tensor, display, engine, losses, nn, onnx, ops, optim
from sknet.callbacks import Checkpoint, CSVLog, EarlyStopping, FitView, Pruning, TimeLimit
from sknet.callbacks._callback import Rows
from sknet.callbacks._checkpoint import SavedFit
from sknet.compile import Equation, Graph, Plan, Variable, capture, compile
from sknet.compile._calls import Call
from sknet.compile._graph import OutputIndex, Signature
from sknet.compile._symbolic import (
    Counted,
    Filled,
    Input,
    Length,
    Lengths,
    LiftedGraph,
    Line,
    Position,
    RowsGraph,
    Samples,
    Share,
    SymbolicGraph,
    Triangles,
    graph_of_any_rows,
    lift_constants,
)
from sknet.compile.cuda._maps import Kernel
from sknet.compile.cuda._persistent import Phases
from sknet.compile.passes import Group, Kernels
from sknet.core import PRIMITIVES, Primitive
from sknet.dask import WorkerExchange
from sknet.device import Device, Feed, Form, Issued, MetaArray, Stream, form_of
from sknet.engine._inputs import Batch, SparseForm
from sknet.engine._layer_outputs import Chosen, Layer, model_layer
from sknet.engine._loop import Outcome, Settings, Validation
from sknet.engine._memory import Weights
from sknet.engine._network import Network, Predictor
from sknet.engine._remote import Share as RemoteShare
from sknet.engine._remote import SplitStep
from sknet.engine._scores import Gathered, NamedScores
from sknet.estimators import (
    EstimatorSummary,
    FrozenClassifier,
    FrozenMultiHeadNet,
    FrozenRegressor,
    FrozenTransformer,
    LayerOutput,
    LayerRow,
)
from sknet.estimators._architecture import Perceptron
from sknet.estimators._computation import Computation
from sknet.estimators._fit import DataSet, FitArguments, Recipe
from sknet.estimators._inputs import RowsWithOffset
from sknet.estimators._python import Method
from sknet.estimators._scaling import InputScaling, Units
from sknet.estimators._targets import ClassTargets, ColumnTargets, OrderedTargets, RealTargets
from sknet.exceptions import NonFiniteError
from sknet.freezing import FrozenPipeline
from sknet.graphs import GraphModule
from sknet.graphs._export import Exported, GraphLayers, export_network
from sknet.losses import LogLoss
from sknet.losses._wrappers import FunctionLoss, Heads, InUnits, Standardized
from sknet.nn._layer_outputs import RECORDED, Calls
from sknet.onnx._writer import Node
from sknet.ops._windows import Windows
from sknet.preprocessing._encodings import Crossed, Target, ValueMeans, target_of
from sknet.preprocessing._native import NativeRow, NativeRows
from sknet.preprocessing._plan import FittedEncoder, OneRow, Options, fit_plan
from sknet.preprocessing._plan import Plan as TablePlan
from sknet.preprocessing._python import EncodedTable
from sknet.preprocessing._schema import Feature, Schema, Table
from sknet.tabular import FrozenTabularClassifier, FrozenTabularRegressor, Member
from tests.arguments import ARGUMENTS as COMMON
from tests.estimators.data import TABLES, quiet
from tests.estimators.nets import net_for
from tests.project import is_protocol, shared_objects

WAYS = {
    **{f"protocol {p}": lambda x, p=p: pickle.loads(pickle.dumps(x, p)) for p in range(6)},
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


# Parts of programs and of fits that run, which nothing stores.
IN_PROCESS = ("sknet.compile.native.", "sknet.engine._loop.Course", "sknet.estimators._training.FitSource")


@cache
def classes():
    found = {name: value for name, value in shared_objects().items() if isinstance(value, type)}
    found |= {f"{c.__module__}.{c.__name__}": c for c in SPECIAL if c not in found.values()}
    return {
        name: cls
        for name, cls in found.items()
        if not (inspect.isabstract(cls) or is_protocol(cls) or name.startswith(IN_PROCESS))
    }


# -- how they are created --------------------------------------------------------------------------------

X = np.random.default_rng(0).normal(size=(6, 4)).astype("float32")
Y = np.arange(6, dtype="float32").reshape(6, 1)

# Values of required arguments, by name: those of all tests, and what pickles have of their own.
ARGUMENTS = {
    **COMMON,
    **{"name": "Own", "tasks": ["regression"], "heads": {"predict": ops.exp}},
    "of_members": True,
    "peak_lr": 0.2,
    "optimizer": optim.SGD(0.1, 0.9),
    "groups": {"weight": optim.Adam(), "*": optim.SGD()},
    "lr_factors": {"*.bias": 0.1},
    "losses": [losses.LogLoss(), losses.LogLoss()],
    "schedules": [0.1, optim.schedules.Cosine(0.1, n_steps=9)],
    "boundaries": [5],
    "every": 3,
    "n_steps": 10,
    "module": nn.Sequential(nn.Linear(4, 4), nn.PReLU()),
    "function": ops.tanh,
    "shape": (2, 4),
    "dtype": np.dtype("float32"),
    "kind": "cpu",
    "out_features": 3,
    "edges": [[0.0, 1.0], [0.0, 0.5, 2.0]],
    "cardinalities": [2, 3],
    "in_channels": 2,
    "out_channels": 3,
    "kernel_size": 3,
    "num_embeddings": 5,
    "embedding_dim": 3,
    "hidden_size": 3,
    "num_layers": 2,
    "data": X,
    "mode": True,
    "patience": 3.0,
    "tol": 0.1,
    "higher_is_better": True,
    "shapes": {"weight": (2, 3), "bias": (3,)},
    "missing_keys": ["a"],
    "unexpected_keys": [],
    "count": 3,
    "slots": {"m": np.arange(3.0)},
    "numpy": np.exp,
    "c": "exp",
    "numba": "np.exp",
    "loss": LogLoss(),
    "estimator": MLPClassifier((3,)),
    "param_grid": {"alpha": [1e-4, 1e-2]},
    "param_distributions": {"alpha": [1e-4, 1e-2]},
    "n_classes": (2, 3),
    "shifts": True,
    "power": 1.0,
    "path": "encoder.0",
}


def model():
    made = sknet.Model(nn.Sequential(nn.Linear(4, 3), nn.BatchNorm(3), nn.Linear(3, 1)), random_state=0)
    for _ in range(3):
        made.step(X, Y)
    return made


def graph():
    x = Variable((3,), "float32")
    constant = Variable((3,), "float32")
    total = Equation(PRIMITIVES["add"], (x, constant), {})
    double = Equation(PRIMITIVES["multiply"], (total.output, 2.0), {})
    return Graph([x], {constant: np.arange(3, dtype="float32")}, [total, double], [double.output])


def communicator():
    """Return what stands for the only worker of a fit."""
    return types.SimpleNamespace(loop=types.SimpleNamespace(asyncio_loop=None), handlers={})


def native_rows():
    encoder = sknet.TableEncoder(piecewise=None).fit(X)
    return NativeRows(encoder.plan, encoder.read(X), {})


def native_row():
    encoder = sknet.TableEncoder(piecewise=None).fit(X)
    return NativeRow([encoder.plan], encoder.read(X[:1]))


def network():
    return Network.fixed(model().module, np.float64)


def predictor():
    found = network()
    return Predictor(found.module, found.layout, found.flat)


def net(task):
    with quiet():
        return net_for(task).fit(*TABLES[task])


def heads():
    X, y = TABLES["regression"]
    network = nn.Sequential(nn.LazyLinear(4), nn.ReLU(), nn.LazyLinear(2))
    with quiet():
        net = sknet.MultiHeadNet(network, {"y": "squared_error", "sign": "log_loss"}, max_iter=3)
        return net.fit(X, {"y": y, "sign": y > 0})


def estimator(kind, task):
    with quiet():
        return kind(hidden_layer_sizes=(4,), max_iter=3, random_state=0).fit(*TABLES[task])


def gradient():
    made = model()
    return made.backward(made.loss(made(X), Y))


def no_scratch(equation):
    return []


def plan():
    made = graph()
    return Plan(made, [Group([equation], 3) for equation in made.equations], {}, no_scratch)


def coded():
    """Return an encoder of a number whose values tell more than their size."""
    codes = np.arange(400.0) % 40
    return sknet.TableEncoder(random_state=0).fit(codes[:, np.newaxis], (codes % 2).astype(int))


def planned():
    schema, table = Schema.learn(sknet.TableEncoder(), X, "from_dtype")
    return schema, table, fit_plan(schema, table, None, Options(), RandomState(0))[0]


def slot():
    made = ops.SparseSlot((2, 3), "float64")
    made.matrix = scipy.sparse.csr_array(np.eye(2, 3))
    return made


def tabular():
    y = np.arange(6.0)
    return sknet.TabularRegressor(n_folds=1, members=1, budget=0.01, random_state=0).fit(X, y)


def labelled():
    y = np.arange(6) % 2
    return sknet.TabularClassifier(n_folds=1, members=1, budget=0.01, random_state=0).fit(X, y)


SPECIAL = {
    FunctionLoss: lambda: FunctionLoss(ops.subtract),
    Phases: lambda: Phases("", [], [], {}, {}, {}, 0, ()),
    InUnits: lambda: InUnits(ops.exp, (2.0,), (1.0,), "float64"),
    Heads: lambda: Heads({"a": losses.SquaredError()}, {"a": 1.0}),
    Standardized: lambda: Standardized(losses.SquaredError(), (1.0,), (2.0,)),
    Length: lambda: Length(2, 1),
    Windows: lambda: Windows((8, 6), (3, 3), (1, 1), ((1, 1), (0, 0)), (1, 1)),
    Stream: lambda: Stream((3, 4)),
    Form: lambda: form_of(X, X.T, np.ones((6, 6), "float32")),
    Share: lambda: Share(Length(1, 0)),
    Call: lambda: Call(np.exp, (X,)),
    LiftedGraph: lambda: lift_constants(capture(lambda x: x * 2.0, np.ones(3))),
    Batch: lambda: Batch(X, Y, None),
    SparseForm: lambda: SparseForm((2, 3), np.dtype("float32")),
    RemoteShare: lambda: RemoteShare(1.5, 0.5, X),
    DataSet: lambda: DataSet(X, Y, None, Y, None, np.arange(6)),
    FitArguments: lambda: FitArguments(X, Y, np.ones(6)),
    RowsGraph: lambda: graph_of_any_rows(lambda n: capture(ops.tanh, np.ones((n, 2)))),
    Computation: lambda: Computation(model().module, nn.run, {"X": X}, False, {"variable": ops.tanh}),
    Method: lambda: Method("predict", "Return predictions.", ops.tanh),
    EncodedTable: lambda: EncodedTable(FittedEncoder(sknet.TableEncoder().fit(X)), "a table"),
    Feature: lambda: planned()[0].features[0],
    FittedEncoder: lambda: FittedEncoder(sknet.TableEncoder().fit(X)),
    ValueMeans: lambda: coded().plan.value_means[0],
    Crossed: lambda: Crossed(np.array([[0.5], [1.0], [2.0]]), np.array([0, -1], np.int32)),
    OneRow: lambda: OneRow([sknet.TableEncoder().fit(X).plan]),
    Member: lambda: Member("smooth", 0, sknet.TableEncoder().fit(X), model(), engine.History()),
    ClassTargets: lambda: ClassTargets(np.array(["a", "b", "a"])),
    OrderedTargets: lambda: OrderedTargets(np.array(["low", "high", "mid"]), order=["low", "mid", "high"]),
    ColumnTargets: lambda: ColumnTargets(np.array([["a", "x"], ["b", "y"], ["c", "x"]])),
    RealTargets: lambda: RealTargets(Y),
    Units: lambda: Units(np.zeros(2), np.ones(2)),
    InputScaling: lambda: InputScaling({"X": Units(np.zeros(2), np.ones(2))}),
    RowsWithOffset: lambda: RowsWithOffset(X, Y),
    TablePlan: lambda: planned()[2],
    Schema: lambda: planned()[0],
    Table: lambda: planned()[1],
    Target: lambda: target_of(Y, "regression"),
    sknet.TabularRegressor: tabular,
    FrozenTabularRegressor: lambda: tabular().freeze(),
    FrozenTabularClassifier: lambda: labelled().freeze(),
    sknet.Model: model,
    Tensor: lambda: Tensor(X, requires_grad=True),
    nn.Parameter: lambda: nn.Parameter(X),
    nn.ChannelShuffle: lambda: nn.ChannelShuffle(2),
    nn.ChannelsLast: nn.ChannelsLast,
    nn.Upsample: lambda: nn.Upsample(scale_factor=2),
    Rows: lambda: Rows(X, Y),
    CSVLog: lambda: CSVLog("fit.csv"),
    Pruning: lambda: Pruning(None),
    TimeLimit: lambda: TimeLimit(2.5),
    Equation: lambda: graph().equations[0],
    Graph: lambda: capture(nn.Linear(4, 3).initialize(0), X),
    GraphModule: lambda: nn.Linear(4, 3).initialize(0).export(X),
    Exported: lambda: export_network(nn.Linear(4, 3).initialize(0), (Tensor(X),)),
    GraphLayers: lambda: vars(export_network(nn.Linear(4, 3).initialize(0), (Tensor(X),)).module)[RECORDED],
    Counted: lambda: Counted(np.dtype("int64"), (Length(1, 0),)),
    Filled: lambda: Filled(np.array(1.5), (Length(1, 0), 3)),
    Input: lambda: Input((Length(1, 0), 4), np.dtype("float32"), "x"),
    Lengths: lambda: Lengths((((0, 1), 2),)),
    Samples: lambda: Samples(1, (4, 5, 7)),
    Triangles: lambda: Triangles(np.array(1.0), np.array(0.0), 0, (Length(1, 0), 3)),
    Line: lambda: Line("exp", (Position(0),), {}),
    OutputIndex: lambda: OutputIndex(1),
    Position: lambda: Position(1),
    Signature: lambda: capture(nn.Linear(4, 3).initialize(0), X).signature,
    SymbolicGraph: lambda: SymbolicGraph.of(capture(ops.tanh, X)),
    Plan: plan,
    Group: lambda: Group(graph().equations, 3),
    Kernel: lambda: Kernel("add", "add(double* x)\n{}", frozenset(), ["x"], 1),
    Kernels: lambda: Kernels(callable),
    Primitive: lambda: PRIMITIVES["add"],
    MetaArray: lambda: MetaArray((2, 3), "float32"),
    NonFiniteError: lambda: NonFiniteError("a message", "0.weight"),
    ops.SparseSlot: slot,
    engine.Batches: lambda: engine.Batches(X, Y, None, 2, np.dtype("float32"), Device("cpu")),
    Checkpoint: lambda: Checkpoint("folder"),
    SavedFit: lambda: SavedFit("folder", {}),
    Chosen: lambda: Chosen(np.array([0, 2]), np.ones(2)),
    Layer: lambda: model_layer(model(), X, 0),
    Weights: lambda: model().weights(),
    Gathered: lambda: Gathered(3, print, ["score"]),
    NamedScores: lambda: NamedScores({}),
    engine.Gradient: gradient,
    engine.ModelState: lambda: model().state,
    engine.StepResult: lambda: model().step(X, Y),
    Outcome: lambda: Outcome(3, EarlyStopping(), False),
    engine.RSquared: lambda: engine.RSquared(Y, None, sknet.losses.Poisson()),
    Validation: lambda: Validation(SPECIAL[engine.Batches](), engine.Accuracy),
    Perceptron: lambda: Perceptron((3,), "relu"),
    Recipe: lambda: Recipe(
        Perceptron((4,), "relu"), LogLoss(), optim.Adam(), 0.0, 200, Settings(), False, 0.1, 0
    ),
    onnx.Network: lambda: onnx.Network([Node("Relu", ("x",), ("y",), {})], ["x"], ["y"], {"w": X}, {}),
    nn.StateDict: lambda: model().module.state_dict(),
    nn.Summary: lambda: nn.summary(model().module, (2, 4)),
    nn.SummaryRow: lambda: nn.summary(model().module, (2, 4)).rows[1],
    optim.MinimizeResult: lambda: optim.MinimizeResult(np.arange(3.0), 0.5, 2, 3, True, "done"),
    FrozenClassifier: lambda: estimator(sknet.MLPClassifier, "multiclass").freeze(),
    FrozenMultiHeadNet: lambda: heads().freeze(),
    FrozenRegressor: lambda: estimator(sknet.MLPRegressor, "regression").freeze(),
    FrozenTransformer: lambda: estimator(sknet.Autoencoder, "regression").freeze(),
    FrozenPipeline: lambda: sknet.freeze(estimator(sknet.MLPClassifier, "multiclass")),
    EstimatorSummary: lambda: estimator(sknet.MLPClassifier, "multiclass").summary(),
    LayerRow: lambda: estimator(sknet.MLPClassifier, "multiclass").summary().layers[1],
    display.AttributionDisplay: lambda: display.AttributionDisplay(X),
    display.GradientDisplay: lambda: display.GradientDisplay([1, 2], {"weight": [0.5, 0.25]}),
    display.GraphDisplay: lambda: display.GraphDisplay.from_module(model().module, X),
    display.IntervalDisplay: lambda: display.IntervalDisplay(Y, Y, Y - 1, Y + 1),
    display.LearningRateDisplay: lambda: display.LearningRateDisplay({"rate": (Y, Y)}),
    display.LossCurveDisplay: lambda: display.LossCurveDisplay({"loss": [2.0, 1.0]}, best_epoch=2),
    display.WeightsDisplay: lambda: display.WeightsDisplay(X, name="weight"),
    LayerOutput: lambda: estimator(sknet.MLPClassifier, "multiclass").layer(0),
    Calls: lambda: Calls(model().module, lambda twin: twin(X)),
    sknet.Autoencoder: lambda: estimator(sknet.Autoencoder, "regression"),
    sknet.MLPClassifier: lambda: estimator(sknet.MLPClassifier, "multiclass"),
    sknet.MLPRegressor: lambda: estimator(sknet.MLPRegressor, "multioutput"),
    sknet.MultiHeadNet: lambda: heads(),
    nn.ModuleFactory: lambda: nn.ModuleFactory(nn.Linear, out_features=2),
    sknet.NetClassifier: lambda: net("multiclass"),
    sknet.NetRegressor: lambda: net("multioutput"),
    sknet.neural_network.MLPClassifier: lambda: estimator(sknet.neural_network.MLPClassifier, "binary"),
    sknet.neural_network.MLPRegressor: lambda: estimator(sknet.neural_network.MLPRegressor, "regression"),
}

# Objects bound to this process, which raise when pickled or copied.
BOUND = {
    "sknet.callbacks.FitView": lambda: FitView(None),
    "sknet.compile.Compiled": lambda: compile(ops.tanh, (X,)),
    "sknet.device.Feed": lambda: Feed(Device("cpu"), [((), np.dtype("f8"))], 1, 1, print),
    "sknet.device.Issued": lambda: Issued(print, Device("cpu")),
    "sknet.core._tape.Node": lambda: (Tensor(1.0, requires_grad=True) * 2).node,
    "sknet.engine.CompiledStep": lambda: engine.compiled_step(model(), X, Y),
    "sknet.dask.WorkerExchange": lambda: WorkerExchange(communicator(), "a fit", 0, ["here"]),
    "sknet.engine._network.Network": network,
    "sknet.engine._network.Predictor": predictor,
    "sknet.preprocessing._native.NativeRow": native_row,
    "sknet.preprocessing._native.NativeRows": native_rows,
    "sknet.engine._remote.SplitStep": lambda: SplitStep(model()),
    "sknet.nn.HookHandle": lambda: Tensor(1.0, requires_grad=True).register_hook(print),
    "sknet.nn.Scope": lambda: nn.Scope({}),
}
BASES = {"sknet.core.TracedArray", "sknet.nn.Lazy", "sknet.Function", "sknet.autograd.Function"}


def made(cls):
    """Return an instance: with defaults, or from the tables above."""
    if cls in SPECIAL:
        return SPECIAL[cls]()
    if issubclass(cls, Exception):
        return cls("a message")
    needed = [
        name
        for name, parameter in inspect.signature(cls).parameters.items()
        if parameter.default is parameter.empty and parameter.kind <= parameter.POSITIONAL_OR_KEYWORD
    ]
    unknown = [name for name in needed if name not in ARGUMENTS]
    assert not unknown, (
        f"{cls.__name__} needs {unknown}: give them a value in ARGUMENTS, or make it in SPECIAL"
    )
    instance = cls(**{name: ARGUMENTS[name] for name in needed})
    if isinstance(instance, nn.Module) and not nn.is_lazy(instance):
        instance.initialize(0)
    return instance


# -- what is compared --------------------------------------------------------------------------------------


# Attributes that are recreated on demand.
PROGRAMS = ("_stepper", "_network", "_graphs", "verified", "shown", "looked", "take_data", "scheduled")


def state_of(x):
    """Return all attributes, in slots or in the dict."""
    slots = [name for cls in type(x).__mro__ for name in getattr(cls, "__slots__", ())]
    found = {name: getattr(x, name) for name in slots if hasattr(x, name) and name != "__weakref__"}
    found.update(getattr(x, "__dict__", {}))
    cached = [
        name for name in found if isinstance(inspect.getattr_static(type(x), name, None), cached_property)
    ]
    return {name: found[name] for name in sorted(found) if name not in (*PROGRAMS, *cached)}


def tensors(a, b, seen):
    assert a.requires_grad == b.requires_grad
    drawn = [getattr(x, "is_drawn", True) for x in (a, b)]
    assert drawn[0] == drawn[1]
    if drawn[0]:
        assert_alike(a.data, b.data, seen)


def arrays(a, b, seen):
    assert a.dtype == b.dtype
    np.testing.assert_array_equal(a, b)


def sequences(a, b, seen):
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        assert_alike(x, y, seen)


def methods(a, b, seen):
    assert a.__func__ is b.__func__
    assert_alike(a.__self__, b.__self__, seen)


def values(a, b, seen):
    assert a == b or (a != a and b != b)


COMPARED = {
    Tensor: tensors,
    np.ndarray: arrays,
    np.ufunc: lambda a, b, seen: values(a, b, seen),
    RandomState: lambda a, b, seen: assert_alike(a.get_state(), b.get_state(), seen),
    scipy.sparse.sparray: lambda a, b, seen: np.testing.assert_array_equal(a.toarray(), b.toarray()),
    Stream: lambda a, b, seen: values(a.key, b.key, seen),  # derived when it is first read
    (list, tuple): sequences,
    Mapping: lambda a, b, seen: sequences(list(a.items()), list(b.items()), seen),
    types.MethodType: methods,
    types.FunctionType: lambda a, b, seen: values(a.__qualname__, b.__qualname__, seen),
    (bool, int, float, str, bytes, type(None), set, slice, type, np.generic, np.dtype): values,
}


def assert_alike(a, b, seen):
    """Assert that two objects are of one class and hold the same, at any depth."""
    # A mapping that cannot be written to may come back as another kind of mapping.
    assert type(a) is type(b) or (isinstance(a, Mapping) and isinstance(b, Mapping))
    if a is b or (id(a), id(b)) in seen:
        return
    seen.add((id(a), id(b)))
    for kinds, compare in COMPARED.items():
        if isinstance(a, kinds):
            return compare(a, b, seen)
    assert_alike(state_of(a), state_of(b), seen)


def assert_works_alike(a, b):
    """Assert that two objects behave alike, if their class does something with X."""
    for method in ("predict", "predict_proba"):
        if hasattr(a, method) and hasattr(a, "n_features_in_"):
            features = np.random.default_rng(1).normal(size=(5, a.n_features_in_))
            for n in (1, 5):
                ours, theirs = (getattr(x, method)(features[:n]) for x in (a, b))
                np.testing.assert_equal(ours, theirs)
    if isinstance(a, sknet.Model):
        np.testing.assert_array_equal(a.predict(X), b.predict(X))
        assert a.step(X, Y).loss == b.step(X, Y).loss
    if type(a) in (nn.Linear, nn.Sequential, nn.BatchNorm, nn.LSTM, nn.MultiheadAttention):
        inputs = (X[:, None],) * 3 if isinstance(a, nn.MultiheadAttention) else (X,)
        inputs = (X[None],) if isinstance(a, nn.LSTM) else inputs
        ours, theirs = (x(*inputs) for x in (a.eval(), b.eval()))
        assert_alike(ours, theirs, set())


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in classes() if name not in BOUND and name not in BASES])
def test_every_public_class(name):
    for way, through in WAYS.items():
        instance = made(classes()[name])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            other = through(instance)
        assert_alike(instance, other, set())
        if way != "copy":  # which may share what it is made of
            assert_works_alike(instance, other)


@pytest.mark.parametrize("name", BOUND)
@pytest.mark.parametrize("way", WAYS)
def test_objects_bound_to_this_process_raise(name, way):
    assert name in classes()
    if way == "copy" and name in ("sknet.nn.Scope", "sknet.engine.CompiledStep"):
        return  # which shares what is bound
    with pytest.raises(TypeError, match="cannot be pickled"):
        WAYS[way](BOUND[name]())
