"""Every loss with every pair of shapes computes row by row, or raises."""

import numpy as np
import pytest

from sknet.exceptions import DtypeError, ShapeError
from sknet.losses import LOSSES
from tests.combinations import every

N = 5
SHAPES = [(N,), (N, 1), (N, 3), (N, 4), (1, N), (1, 1), (N, N), (N, 2, 3), (N, 2, 1), (N, 2), (2 * N,), ()]
OUTPUTS = SHAPES[:-2]


def target_shapes(loss, output):
    """Return the shapes of targets that fit an output, and whether those are class numbers."""
    if loss.outputs_per_target == 2:
        halved = (*output[:-1], output[-1] // 2) if len(output) > 1 and output[-1] % 2 == 0 else None
        single = [output[:1]] if halved == (output[0], 1) else []
        return ([halved, *single] if halved else []), False
    if type(loss).__name__ == "KLDivergence":
        return ([output] if len(output) > 1 and output[-1] > 1 else []), False
    of_vectors = {"MarginRanking": [(2,), (2, 1)], "CosineEmbedding": [(2, 3), (2, 1)], "TripletMargin": []}
    if type(loss).__name__ in of_vectors:
        return [output[:1]] if output[1:] in of_vectors[type(loss).__name__] else [], False
    if type(loss).__name__ == "CTC":
        fits = len(output) == 3 and output[2] > 1
        return [shape for shape in SHAPES if fits and len(shape) == 2 and shape[0] == output[0]], True
    if "ordinal" in loss.tasks:
        return [output[:1]] if len(output) == 2 else [], True
    of_classes = "multiclass" in loss.tasks and len(output) > 1 and output[-1] > 1
    if of_classes or type(loss).__name__ in ("NLL", "MultiMargin"):
        return ([output[:-1]] if len(output) > 1 else []), True
    single = [output[:1]] if len(output) == 2 and output[1] == 1 else []
    return [output, *single], False


def target_of(loss, rng, shape, of_classes):
    if of_classes:
        return np.full(shape, int(type(loss).__name__ == "CTC"))
    return rng.integers(0, 2, size=shape) * 1.0 if "binary" in loss.tasks else rng.uniform(0.1, 1, size=shape)


@pytest.mark.parametrize("output", OUTPUTS, ids=str)
@every(name=[name for name, loss in LOSSES.items() if loss.columns_per_target == 1])
def test_shapes(name, output):
    loss, rng = LOSSES[name](), np.random.default_rng(0)
    fitting, of_classes = target_shapes(loss, output)
    z = rng.uniform(0.1, 0.9, size=output)
    for shape in SHAPES:
        y = target_of(loss, rng, shape, of_classes)
        if shape not in fitting:
            with pytest.raises((ShapeError, DtypeError)):
                loss.values(z, y)
            continue
        values = loss.values(z, y).numpy()
        assert values.shape == output[:1]
        rows = [loss.values(z[i : i + 1], y[i : i + 1]).numpy()[0] for i in range(output[0])]
        np.testing.assert_allclose(values, rows, rtol=1e-12)
