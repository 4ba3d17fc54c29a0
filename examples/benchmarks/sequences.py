"""Accuracy of networks for sequences by name, on numbers and on texts as ids, beside scikit-learn.

    OMP_NUM_THREADS=1 python examples/benchmarks/sequences.py [--seed 0] [--only NAME] [--json PATH]

Numbers are scikit-learn's digits, 8 steps of 8 numbers each. Texts are the first 12 words of descriptions of
functions and classes in NumPy, SciPy, scikit-learn and the standard library, 500 of each, of different
lengths, as ids of the 2,000 words that are most frequent in the rows to train on; which of the four a text
describes is to be told. Nothing is set but the seed and, so that a fit takes some seconds, ``max_iter=12``
and ``lr=5e-3``. A fifth of the rows is held out. CPU seconds are those of all threads.
"""

import importlib
import inspect
import re
import time
import warnings
from collections import Counter
from typing import Any

import numpy as np
from measured import Table, parser_of, write
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sknet import NetClassifier

COLUMNS = {"digits": ".3f", "digits, CPU s": ".1f", "texts": ".3f", "texts, CPU s": ".1f"}
SEQUENCES = Table("steps of numbers, and words", COLUMNS)
NETWORKS = ("lstm", "gru", "transformer", "tcn")
MODULES = {
    "numpy": "numpy numpy.linalg numpy.fft numpy.random numpy.ma numpy.polynomial",
    "scipy": "scipy.linalg scipy.optimize scipy.signal scipy.sparse scipy.special scipy.stats",
    "sklearn": "sklearn.cluster sklearn.datasets sklearn.decomposition sklearn.ensemble sklearn.linear_model "
    "sklearn.metrics sklearn.model_selection sklearn.preprocessing",
    "standard library": "os shutil random statistics collections pathlib email.message asyncio logging "
    "unittest datetime decimal threading subprocess socket ssl",
}
WORDS, MOST_STEPS, LEAST_STEPS, MOST_TEXTS = 2_000, 12, 4, 500


def described(names: str) -> list[list[str]]:
    """Return the words of the descriptions of what modules and their classes hold."""
    found = {}
    for module in map(importlib.import_module, names.split()):
        things = [value for name, value in vars(module).items() if name[0] != "_"]
        inside = [x for each in things if inspect.isclass(each) for x in vars(each).values()]
        for thing in (*things, *inside):
            text = inspect.getdoc(thing) if callable(thing) else None
            words = re.findall(r"[a-z]+", (text or "").partition("Parameters\n")[0].lower())
            if len(words) >= LEAST_STEPS:
                found[" ".join(words[:MOST_STEPS])] = words[:MOST_STEPS]
    return [found[text] for text in sorted(found)][:MOST_TEXTS]


def texts() -> tuple[list[list[str]], np.ndarray]:
    """Return texts as words, and which package each describes."""
    rows, labels = [], []
    for label, names in MODULES.items():
        some = described(names)
        rows += some
        labels += [label] * len(some)
    return rows, np.array(labels)


def as_ids(rows: list[list[str]], known: dict[str, int]) -> list[list[int]]:
    """Return words as ids; all unknown ones have the last."""
    return [[known.get(word, len(known)) for word in row] for row in rows]


def fitted(model: Any, data: list[Any]) -> tuple[float, float]:
    """Return the accuracy on the rows held out, and CPU seconds of the fit."""
    X, X_test, y, y_test = data
    started = time.process_time()
    model.fit(X, y)
    seconds = time.process_time() - started
    return float(model.score(X_test, y_test)), seconds


def main() -> None:
    """Measure and print."""
    parser = parser_of(__doc__)
    parser.add_argument("--seed", type=int, default=0, help="random_state of the fits and of the split")
    parser.add_argument("--only", default="", help="only the networks whose name contains this")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    seed = arguments.seed
    X, y = load_digits(return_X_y=True)
    digits = train_test_split(X.reshape(-1, 8, 8), y, test_size=0.2, stratify=y, random_state=seed)
    rows, labels = texts()
    words = train_test_split(rows, labels, test_size=0.2, stratify=labels, random_state=seed)
    counts = Counter(word for row in words[0] for word in row)
    known = {word: i for i, (word, _) in enumerate(counts.most_common(WORDS))}
    ids = [as_ids(words[0], known), as_ids(words[1], known), *words[2:]]
    print(f"{len(rows)} texts, of which {np.unique(labels, return_counts=True)}\n")
    for name in NETWORKS:
        if arguments.only in name:
            figures = [
                fitted(NetClassifier(name, max_iter=12, lr=5e-3, random_state=seed), x) for x in (digits, ids)
            ]
            SEQUENCES.add(f'sknet, `NetClassifier("{name}")`', *figures[0], *figures[1])
    flat = [x.reshape(len(x), -1) for x in digits[:2]] + digits[2:]
    joined = [[" ".join(row) for row in part] for part in words[:2]] + words[2:]
    perceptron = make_pipeline(StandardScaler(), MLPClassifier(random_state=seed))
    frequencies = make_pipeline(TfidfVectorizer(), LogisticRegression(max_iter=1000, C=10.0))
    peers = [fitted(perceptron, flat), fitted(frequencies, joined)]
    SEQUENCES.add("scikit-learn: a perceptron of 64 numbers; frequencies of words", *peers[0], *peers[1])
    write(arguments.json, {"sequences": SEQUENCES})


if __name__ == "__main__":
    main()
