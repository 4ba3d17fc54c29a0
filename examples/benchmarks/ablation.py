"""Compare what `TabularClassifier` and `TabularRegressor` do with what they could do, by out-of-fold losses.

    python examples/benchmarks/ablation.py --data DIR [--parts mixing encoding whole ...] [--quick]

DIR is as for ``tables.py``; no test rows are looked at. Each variant of `VARIANTS` is fitted on the same rows
and folds as the estimator unchanged, without neighbors but in the part of that name. A line for each fit has
its loss, log loss or 1 - R2, and CPU seconds; then come the means over sets and seeds, with the mean rank.
Mixes are chosen on one half of the held-out rows and scored on the other, both ways. The part "members" asks
what a size of networks is worth in an ensemble: it trains `TRAINED` of them in each of two folds, mixes the
means of one, two and all with smooth members, and extends the line of losses over 1 / n to as many as an
ensemble has. ``--quick`` fits tiny ensembles, to see whether the script runs.
"""

import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from measured import Table, parser_of, write
from scipy.optimize import minimize
from scipy.stats import rankdata
from tables import SETS, known_rows, load, out_of_fold

from sknet import nn, ops
from sknet.core import Tensor
from sknet.losses._wrappers import Averaged
from sknet.preprocessing import TableEncoder, _sums
from sknet.tabular import TabularClassifier, TabularRegressor, _base, _members, _training
from sknet.tabular._members import KINDS, NEIGHBORS, RECIPES
from sknet.tabular._predicting import Mix, mixed

WITH_CATEGORIES = ("adult", "diamonds", "bike_sharing")
FEW, MANY = 200, 100_000
# Losses of the first fold that are further apart, relatively, would drop the worse kind.
MARGINS = (0.05, 0.1, 0.2, 0.5)
LEVELS = 10_000  # more than any column has
NETWORKS = [kind for kind in KINDS if kind != NEIGHBORS]


@dataclass(frozen=True)
class Variant:
    """What an experiment changes.

    Attributes
    ----------
    name : str
        What it is called in tables.
    params : dict, or function of the task
        Parameters of the estimator.
    encoder : dict
        Parameters of its encoders.
    shared : int
        Number of members that share weights, as in TabM; 0 for networks of their own.
    constants : dict of (module, name) to value
        Constants that it replaces.
    """

    name: str
    params: dict[str, Any] | Callable[[str], dict[str, Any]] = field(default_factory=dict)
    encoder: dict[str, Any] = field(default_factory=dict)
    shared: int = 0
    constants: dict[tuple[Any, str], Any] = field(default_factory=dict)


def recipe(task: str, *names: str) -> dict[str, Any]:
    """Return measured defaults of both kinds as parameters, as they are for 10,000 rows."""
    task = task.split()[0]
    values = {(kind, name): RECIPES[kind][name] for kind in NETWORKS for name in names}
    return {f"{k}__{n}": x[task] if isinstance(x, dict) else x for (k, n), x in values.items()}


def batches_of(factor: int, task: str) -> dict[str, Any]:
    """Return batches of `factor` times as many rows as for 10,000 rows."""
    return {name: factor * size for name, size in recipe(task, "batch_size").items()}


def embeddings(kinds: str) -> dict[str, Any]:
    """Return parameters by which members of these kinds have embeddings, and no others."""
    return {f"{kind}__embeddings": kind in kinds for kind in NETWORKS}


def sized(*sizes: int) -> Variant:
    """Return sharp members with hidden layers of these sizes."""
    return Variant(", ".join(map(str, sizes)), {**SHARP, "sharp__hidden_layer_sizes": sizes})


SHARP: dict[str, Any] = {"smooth": None}
ONE_HOT = {**SHARP, "sharp__embeddings": False}
EMBEDDED = {**SHARP, "sharp__embeddings": True}
UNSCALED = Variant("epochs and batches of 10,000 rows", lambda task: recipe(task, "epochs", "batch_size"))
VARIANTS = {
    "encoding": [
        Variant("one-hot", ONE_HOT),
        Variant("one-hot, however many levels", ONE_HOT, {"max_levels": LEVELS}),
        Variant("target encoding", ONE_HOT, {"max_levels": 2}),
        Variant("embeddings", EMBEDDED),
        Variant("embeddings, however many levels", EMBEDDED, {"max_levels": LEVELS}),
    ],
    "whole": [
        Variant("one-hot", embeddings("")),
        Variant("embeddings", embeddings("smooth sharp")),
        Variant("embeddings of sharp members", embeddings("sharp")),
        Variant("target encoding", embeddings(""), {"max_levels": 2}),
    ],
    "sharing": [
        Variant("one network", SHARP),
        Variant("four networks", {**SHARP, "sharp__per_fold": 4}),
        Variant("four that share weights", SHARP, shared=4),
    ],
    "few": [
        Variant("unchanged"),
        UNSCALED,
        Variant("decay 0.1", {"smooth__weight_decay": 0.1, "sharp__weight_decay": 0.1}),
        Variant("decay 0.5", {"smooth__weight_decay": 0.5, "sharp__weight_decay": 0.5}),
        Variant("three times the members", {"smooth__per_fold": 6, "sharp__per_fold": 3}),
        Variant("half the epochs", {"budget": 0.5}),
    ],
    "many": [
        Variant("batches of 10,000 rows", partial(batches_of, 1)),
        Variant("twice as large", partial(batches_of, 2)),
        Variant("four times as large", partial(batches_of, 4)),
        UNSCALED,
    ],
    "sums": [Variant(f"{n} sums", constants={(_sums, "MOST_SUMS"): n}) for n in (0, 2, 3)],
    "folds": [Variant(f"one in {n}", constants={(_members, "PARTS_OF_SEVERAL"): n}) for n in (10, 20)],
    "neighbors": [
        Variant("networks alone", lambda task: {} if task == "regression" else {"n_folds": 4}),
        Variant("neighbors, too", {"neighbors": "auto"}),
    ],
    "members": [sized(256, 256), sized(256, 128), sized(128, 256), sized(128, 128)],
}
TRAINED = 3


class Shared(nn.Module):
    """Members that share weights, parametrized as those that do not; each is trained by its own loss."""

    def __init__(
        self, n_members: int, n_features: int, n_outputs: int, sizes: Any, dropout: float, scales: bool
    ) -> None:
        self.scale = nn.Scale(n_features) if scales else None
        self.view, widths = nn.EnsembleView(n_members), [n_features, *sizes]
        draw = nn.init.Normal(1.0)
        self.hidden = nn.ModuleList(
            *(
                nn.BatchEnsembleLinear(n, m, n_members, "ones" if i else "signs", init=draw)
                for i, (n, m) in enumerate(zip(widths, sizes, strict=False))
            )
        )
        self.dropout = nn.Dropout(dropout)
        self.last = nn.EnsembleLinear(widths[-1], n_outputs, n_members, reduce=None, init=draw)

    def forward(self, x: Any) -> Tensor:
        h = self.view(x if self.scale is None else self.scale(x))
        for layer in self.hidden:
            h = self.dropout(ops.relu(layer(h * layer.in_features**-0.5)))
        found = self.last(h * self.last.in_features**-0.5)
        if not self.training:
            return ops.mean(found, axis=-2)
        return ops.reshape(found, (found.shape[0], found.shape[1] * found.shape[2]))


class Watched:
    """An ensemble that trains members of a variant, and keeps what it knows of them."""

    variant = Variant("unchanged")

    def fit(self, X: Any, y: Any) -> Any:
        self.seconds: dict[str, float] = defaultdict(float)
        with ExitStack() as stack:
            for name, value in self._changes():
                stack.enter_context(mock.patch.object(*name, value))
            return super().fit(X, y)  # type: ignore[misc]

    def _changes(self) -> Iterator[tuple[tuple[Any, str], Any]]:
        """Yield what the variant replaces in the modules that train members."""
        variant = self.variant
        yield from variant.constants.items()
        if variant.encoder:
            yield (_base, "TableEncoder"), partial(TableEncoder, **variant.encoder)
        if variant.shared:
            smoothed = _training.loss_with
            yield (
                (_training, "loss_with"),
                lambda *args: Averaged([smoothed(*args) for _ in range(variant.shared)]),
            )
            yield (_training, "TabularNet"), partial(Shared, variant.shared)

    def _trained(self, task: Any, job: Any, *others: Any) -> Any:
        began = time.thread_time()
        found = super()._trained(task, job, *others)  # type: ignore[misc]
        self.seconds[job.kind] += time.thread_time() - began
        return found

    def _residuals(self, *args: Any) -> Any:
        began = time.thread_time()
        found = super()._residuals(*args)  # type: ignore[misc]
        self.seconds[NEIGHBORS] += time.thread_time() - began
        return found

    def _mix_up(self, task: Any, jobs: Any, trained: Any, *others: Any) -> Any:
        found = super()._mix_up(task, jobs, trained, *others)  # type: ignore[misc]
        if NEIGHBORS not in task.settings:
            self.held = Held(task, jobs, trained, self._by_error())  # type: ignore[attr-defined]
        return found


class Classifier(Watched, TabularClassifier):
    """A watched classifier."""


class Regressor(Watched, TabularRegressor):
    """A watched regressor."""


class Held:
    """Outputs of all members for the rows that their folds hold out, one fold behind the other."""

    def __init__(self, task: Any, jobs: Any, trained: Any, by_error: bool) -> None:
        parts, folds = defaultdict(list), {}
        for job, members in sorted(zip(jobs, trained, strict=True), key=lambda pair: pair[0].fold):
            folds[job.fold] = job.rows[1]
            for i, each in enumerate(members):
                parts[job.kind, i].append(each.outputs)
        rows = np.concatenate(list(folds.values()))
        self.members = {f"{kind} {i}": np.concatenate(found) for (kind, i), found in parts.items()}
        self.kinds = {
            kind: np.mean([x for name, x in self.members.items() if name.startswith(kind)], axis=0)
            for kind in task.settings
        }
        self.loss, self.by_error, self.y = task.loss, by_error, task.y[rows]
        self.n_first = len(folds[0])

    def loss_of(self, output: np.ndarray, rows: Any = slice(None)) -> float:
        """Return the mean loss of outputs for some rows."""
        return float(
            np.mean(self.loss.values(Tensor(output[rows].astype(float)), Tensor(self.y[rows])).numpy())
        )

    def error_of(self, output: np.ndarray, rows: Any) -> float:
        """Return the share of wrong classes among some rows."""
        return float(np.mean(output[rows].argmax(axis=1) != self.y[rows]))

    def mixed(self, outputs: dict[str, np.ndarray], rows: Any, by_error: bool = False) -> Mix:
        """Return the mix that the estimators would choose."""
        return mixed({name: x[rows] for name, x in outputs.items()}, self.y[rows], None, self.loss, by_error)

    def tempered(self, outputs: dict[str, np.ndarray], rows: Any) -> list[np.ndarray]:
        """Return outputs divided by temperatures that fit some rows."""
        return [x / self.mixed({name: x}, rows).temperatures[name] for name, x in outputs.items()]


def greedy(held: Held, parts: list[np.ndarray], rows: Any, steps: int = 20) -> np.ndarray:
    """Add the best part, again and again (Caruana and others, 2004)."""
    total, stack = np.zeros_like(parts[0]), np.stack(parts)
    for n in range(1, steps + 1):
        best = min(range(len(parts)), key=lambda i: held.loss_of((total + stack[i]) / n, rows))
        total = total + stack[best]
    return total / steps


def stacked(held: Held, parts: list[np.ndarray], rows: Any) -> np.ndarray:
    """Weigh parts by the factors of least loss, which need not sum to 1."""
    stack = np.stack(parts)
    found = minimize(
        lambda w: held.loss_of(np.tensordot(w, stack, 1), rows),
        np.full(len(parts), 1 / len(parts)),
        method="Nelder-Mead",
        options={"xatol": 1e-3, "fatol": 1e-6, "maxfev": 200},
    )
    return np.tensordot(found.x, stack, 1)


def grid(held: Held, by_error: bool, rows: Any) -> np.ndarray:
    """Mix as the estimators do."""
    return held.mixed(held.kinds, rows, by_error).of(held.kinds)


MIXES: dict[str, Callable[[Held, Any], np.ndarray]] = {
    "sharp members": lambda held, rows: held.tempered({"sharp": held.kinds["sharp"]}, rows)[0],
    "smooth members": lambda held, rows: held.tempered({"smooth": held.kinds["smooth"]}, rows)[0],
    "both alike": lambda held, rows: np.mean(held.tempered(held.kinds, rows), axis=0),
    "grid, as it is": lambda held, rows: grid(held, held.by_error, rows),
    "grid, always by loss": lambda held, rows: grid(held, False, rows),
    "greedy, of kinds": lambda held, rows: greedy(held, held.tempered(held.kinds, rows), rows),
    "greedy, of networks": lambda held, rows: greedy(held, held.tempered(held.members, rows), rows),
    "stacked kinds": lambda held, rows: stacked(held, held.tempered(held.kinds, rows), rows),
    "stacked networks": lambda held, rows: stacked(held, held.tempered(held.members, rows), rows),
}


def fitted(variant: Variant, X: Any, y: Any, task: str, seed: int, **params: Any) -> Any:
    """Return a fitted ensemble of a variant."""
    model = (Regressor if task == "regression" else Classifier)(random_state=seed, n_jobs=1)
    model.variant = variant
    chosen = variant.params(task) if callable(variant.params) else variant.params
    params = {"neighbors": None, **params}  # the other parts are of networks
    return model.set_params(**{**params, **chosen}).fit(X, y)


class Losses:
    """Losses and seconds of variants, by data set and by seed."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, list[tuple[float, float]]]] = {}

    def add(self, data: str, variant: str, loss: float, seconds: float) -> None:
        self.found.setdefault(data, {}).setdefault(variant, []).append((loss, seconds))

    def table(self, title: str) -> Table:
        """Return, and print, means over seeds, the mean rank, and CPU seconds of all fits together."""
        means = {data: np.mean(list(of.values()), axis=1) for data, of in self.found.items()}
        noise = [
            f"{data} {np.std([x for x, _ in next(iter(of.values()))], ddof=1):.4f}"
            for data, of in self.found.items()
            if len(next(iter(of.values()))) > 1
        ]
        ranks = np.mean(
            [
                rankdata(np.array(list(of.values()))[:, i, 0])
                for of in self.found.values()
                for i in range(len(next(iter(of.values()))))
            ],
            axis=0,
        )
        table = Table(title, {**dict.fromkeys(means, ".4f"), "mean rank": ".2f", "CPU, s": ".1f"})
        for i, name in enumerate(next(iter(self.found.values()))):
            each = [float(of[i, 0]) for of in means.values()]
            table.add(name, *each, float(ranks[i]), float(np.mean([of[i, 1] for of in means.values()])))
        if noise:
            print("deviations between seeds of the first:", ", ".join(noise), flush=True)
        return table


def compared(
    part: str, arguments: Any, sets: Any, rows: int, seeds: Any, draws: bool, **params: Any
) -> Table:
    """Fit all variants of a part; seeds are also those of the rows, with `draws`.

    Losses are those of the rows that all of them hold out.
    """
    losses = Losses()
    for name in sets:
        for seed in seeds:
            X, y, _, _, task = load(arguments.data, name, rows, seed if draws else 0)
            X, y = common_classes(X, y, task)
            variants = VARIANTS[part][: arguments.first]
            models = [fitted(variant, X, y, task, seed, **params) for variant in variants]
            known = np.all([known_rows(model, y) for model in models], axis=0)
            for variant, model in zip(variants, models, strict=True):
                said, seconds = out_of_fold(model, y, known), sum(model.seconds.values())
                print(f"{name:20} seed {seed}  {variant.name:34}  {said}  {seconds:6.1f} s", flush=True)
                losses.add(name, variant.name, float(said.split("  ")[0].rsplit(" ", 1)[1]), seconds)
    return losses.table(part)


def common_classes(X: Any, y: Any, task: str) -> tuple[Any, Any]:
    """Return the rows of classes with at least 10 rows: others would be missing in some folds."""
    if task == "regression":
        return X, y
    names = np.asarray(y).astype(str)
    _, places, counts = np.unique(names, return_inverse=True, return_counts=True)
    enough = counts[places] >= 10
    return X[enough], names[enough]


def mixing(arguments: Any, sets: Any, rows: int, seeds: Any, **params: Any) -> tuple[Table, Table]:
    """Compare mixes, and what rules that drop a kind after the first fold would do."""
    losses, errors, drops = Losses(), Losses(), []
    for name in sets:
        X, y, _, _, task = load(arguments.data, name, rows, 0)
        for seed in seeds:
            model = fitted(Variant("unchanged"), X, y, task, seed, **params)
            held, order = model.held, np.random.default_rng(seed).permutation(len(model.held.y))
            halves = order[::2], order[1::2]
            for mix, choose in MIXES.items():
                began = time.thread_time()
                both = zip(halves, halves[::-1], strict=True)
                found = [(choose(held, own), other) for own, other in both]
                seconds = time.thread_time() - began
                losses.add(name, mix, float(np.mean([held.loss_of(*each) for each in found])), seconds)
                if held.by_error:
                    errors.add(name, mix, float(np.mean([held.error_of(*each) for each in found])), seconds)
            drops.append(dropped(model))
            print(f"{name:20} seed {seed}  {drops[-1]}", flush=True)
    if errors.found:
        errors.table("mix, by its error")
    return losses.table("mix"), dropping(drops)


def members(arguments: Any, sets: Any, rows: int, seeds: Any, **params: Any) -> Table:
    """Compare sizes of networks by what an ensemble of as many as by default would lose."""
    losses = Losses()
    for name in sets:
        X, y, _, _, task = load(arguments.data, name, rows, 0)
        for seed in seeds:
            few = {**params, "n_folds": 2}
            alone = Variant("smooth", {"sharp": None, "smooth__per_fold": TRAINED})
            smooth = fitted(alone, X, y, task, seed, **few).held.kinds["smooth"]
            for variant in VARIANTS["members"]:
                model = fitted(variant, X, y, task, seed, **few, sharp__per_fold=TRAINED)
                loss = of_many(model.held, smooth, 8 if task == "regression" else 4)
                seconds = sum(model.seconds.values()) / (2 * TRAINED)
                print(f"{name:20} seed {seed}  {variant.name:34}  {loss:.4f}  {seconds:6.2f} s", flush=True)
                losses.add(name, variant.name, loss, seconds)
    return losses.table("members")


def of_many(held: Held, smooth: np.ndarray, count: int) -> float:
    """Return the loss of a mix with the mean of so many sharp members, extended from that of fewer."""
    found, outputs = [], list(held.members.values())
    for n in (1, len(outputs)):
        means = [np.mean(each, axis=0) for each in combinations(outputs, n)]
        mixes = [{"smooth": smooth, "sharp": each} for each in means]
        found.append(
            np.mean([held.loss_of(held.mixed(each, slice(None)).of(each), slice(None)) for each in mixes])
        )
    slope = (found[0] - found[1]) / (1 - 1 / len(outputs))
    return float(found[1] - slope * (1 / len(outputs) - 1 / count))


def dropped(model: Any) -> dict[str, Any]:
    """Return how far the worse kind is behind after the first fold, and what dropping it means."""
    held, mix = model.held, model._mix
    first = slice(0, held.n_first)
    of_first = {
        kind: held.loss_of(held.tempered({kind: x}, first)[0], first) for kind, x in held.kinds.items()
    }
    worse, better = max(of_first, key=of_first.get), min(of_first, key=of_first.get)  # type: ignore[arg-type]
    alone = held.loss_of(held.tempered({better: held.kinds[better]}, slice(None))[0])
    n_folds = len({member.fold for member in model.members_})
    return {
        "behind": of_first[worse] / of_first[better] - 1,
        "worse": worse,
        "weight": mix.weights[worse],
        "harm": alone / held.loss_of(mix.of(held.kinds)) - 1,
        "saved": model.seconds[worse] * (1 - 1 / n_folds) / sum(model.seconds.values()),
    }


def dropping(found: list[dict[str, Any]]) -> Table:
    """Return, and print, what each rule would do in all fits."""
    columns = {"fits": "d", "dropped": "d", "with a weight": "d", "loss, %": "+.1f", "time saved, %": ".0f"}
    table = Table("worse by more than", columns)
    for margin in MARGINS:
        chosen = [each for each in found if each["behind"] > margin]
        weighed = sum(each["weight"] > 0 for each in chosen)
        means = [
            100 * float(np.mean([each[key] for each in chosen])) if chosen else None
            for key in ("harm", "saved")
        ]
        table.add(f"{margin:.0%}", len(found), len(chosen), weighed, *means)
    return table


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with datasets.json")
    parser.add_argument("--parts", nargs="+", default=["mixing", *VARIANTS], choices=["mixing", *VARIANTS])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--sets", nargs="+", help="instead of those of a part")
    parser.add_argument("--rows", type=int, help="instead of those of a part")
    parser.add_argument("--first", type=int, help="how many variants of a part, instead of all")
    parser.add_argument("--budget", type=float, help="of each fit")
    parser.add_argument("--quick", action="store_true", help="tiny fits")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", "The y_prob values do not sum to one")  # those of float32
    large = ("mixing", "sums", "folds", "neighbors", "members")
    sizes = {**dict.fromkeys(large, 10_000), "few": FEW, "many": MANY}
    of_part = dict.fromkeys(("mixing", "sums", "folds", "members", "few"), SETS)
    of_part["neighbors"] = ("covertype_16pct", "california_housing", "diamonds", "bike_sharing")
    of_part["many"] = ("covertype_16pct", "kddcup99_10pct")
    tables: dict[str, Table] = {}
    for part in arguments.parts:
        rows = 200 if arguments.quick else arguments.rows or sizes.get(part, 4000)
        sets = arguments.sets or of_part.get(part, WITH_CATEGORIES)
        sets, seeds = (sets[:1], arguments.seeds[:2]) if arguments.quick else (sets, arguments.seeds)
        budget = 0.02 if arguments.quick else arguments.budget or (0.1 if part == "many" else 1.0)
        if part == "mixing":
            tables[part], tables["dropping"] = mixing(arguments, sets, rows, seeds, budget=budget)
        elif part == "members":
            tables[part] = members(arguments, sets, rows, seeds, budget=budget)
        else:
            tables[part] = compared(part, arguments, sets, rows, seeds, part == "few", budget=budget)
        write(arguments.json, tables)


if __name__ == "__main__":
    main()
