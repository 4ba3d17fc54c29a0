"""Free texts as numbers: frequencies of words or characters, weighted, and projected on a few directions."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sknet._fields import Arrays, Each
from sknet._late import FieldsAlone, cached_property
from sknet._parallel import blas_threads

# Characters of a text that are read, terms that are known, numbers that a text becomes, and texts of a fit.
LONGEST, MOST_TERMS, MOST_OUTPUTS, MOST_TEXTS = 10_000, 2000, 32, 20_000
# Words that free texts have on average, at least; or characters, in scripts without spaces.
LEAST_WORDS, LEAST_CHARACTERS, SAMPLED = 3, 6, 1000
LEAST_DEVIATION = 1e-6  # of projections, which are at most 1
SCRIPTS_WITHOUT_SPACES = "[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]"


def terms_of(text: str, form: str) -> list[str]:
    """Return the words of a text, or its pairs and triples of characters."""
    text = text[:LONGEST].lower()
    if form == "words":
        return re.findall(r"\b\w\w+\b", text)
    text = re.sub(r"\s+", " ", text)
    return [text[i : i + n] for n in (2, 3) for i in range(len(text) - n + 1)]


def numbers_of_words(values: Any, codes: Any, weights: Any, directions: Any, form: str) -> Any:
    """Return the numbers of each text; 0 for those without a known term, and for what is no text."""
    known: dict[Any, Any] = {}
    out = np.zeros((len(values), directions.shape[1]))
    for row, text in enumerate(values):
        if not isinstance(text, str):
            continue
        if text not in known:
            counts: dict[int, int] = {}
            for term in terms_of(text, form):
                if term in codes:
                    counts[codes[term]] = counts.get(codes[term], 0) + 1
            chosen = np.array(sorted(counts), np.int64)
            weighted = weights[chosen] * np.array([counts[i] for i in chosen.tolist()], np.float64)
            length = np.sqrt((weighted * weighted).sum()) or 1.0
            known[text] = ((weighted / length)[:, np.newaxis] * directions[chosen]).sum(axis=0)
        out[row] = known[text]
    return out


@dataclass(frozen=True)
class Words(FieldsAlone):
    """Terms of free texts with their weights, and the directions on which their frequencies are projected."""

    terms: tuple[str, ...]
    weights: np.ndarray
    directions: np.ndarray
    form: str
    _stored_fields = {
        "terms": Each(tuple, str),
        "weights": Arrays("f", "n_terms"),
        "directions": Arrays("f", "n_terms", "n_outputs"),
    }

    def _check_stored(self) -> None:
        if len(self.codes) != len(self.terms) or len(self.terms) != len(self.weights):
            raise ValueError(f"{len(self.terms)} terms, some perhaps equal, have {len(self.weights)} weights")
        if self.form not in ("words", "characters"):
            raise ValueError(f"texts are read as {self.form!r}")

    @cached_property
    def codes(self) -> Mapping[str, int]:
        return {term: i for i, term in enumerate(self.terms)}

    def encode(self, values: Sequence[Any]) -> np.ndarray:
        """Return the numbers of texts, of shape (n_samples, n_outputs)."""
        return numbers_of_words(values, self.codes, self.weights, self.directions, self.form)


def is_free_text(levels: Sequence[str]) -> str | None:
    """Return the terms, words or characters, that texts should be told by; None if they are no free texts."""
    some = levels[:: -(-len(levels) // SAMPLED)]
    n_words = [len(text[:LONGEST].split()) for text in some]
    if np.mean(n_words) >= LEAST_WORDS:
        return "words"
    without = [len(text) for text in some if re.search(SCRIPTS_WITHOUT_SPACES, text[:LONGEST])]
    return "characters" if 2 * len(without) > len(some) and np.mean(without) >= LEAST_CHARACTERS else None


def fit_words(levels: Sequence[str], form: str) -> Words | None:
    """Find the terms of different texts, and the directions in which they differ most; None without terms."""
    from sklearn.decomposition import TruncatedSVD  # tables without texts do without
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts = levels[:: -(-len(levels) // MOST_TEXTS)]
    least = 2 if len(texts) > 2 else 1
    vectorizer = TfidfVectorizer(
        analyzer=lambda text: terms_of(text, form), max_features=MOST_TERMS, min_df=least
    )
    try:
        weighted = vectorizer.fit_transform(texts)
    except ValueError:  # no term occurs, or in more than one text
        return None
    n_outputs = min(MOST_OUTPUTS, weighted.shape[1] - 1)
    if n_outputs < 1:
        return None
    # With more threads, sums would be in another order; shares of no variance at all are not needed.
    with blas_threads(1), np.errstate(invalid="ignore"):
        svd = TruncatedSVD(n_outputs, random_state=0).fit(weighted)
    deviations = (weighted @ svd.components_.T).std(axis=0)
    chosen = deviations > LEAST_DEVIATION
    if not chosen.any():
        return None
    directions = svd.components_[chosen].T / deviations[chosen]
    terms = tuple(map(str, vectorizer.get_feature_names_out()))
    return Words(terms, vectorizer.idf_, directions.astype(np.float32), form)
