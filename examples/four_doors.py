"""Four interfaces to one core: the same small problem with each, and who owns what.

Run it with ``python examples/four_doors.py``; it needs only sknet, and takes a few seconds. The problem
is to classify scikit-learn's two half moons. For each interface the script prints a decreasing loss, and
where state is stored afterwards:

1. an estimator owns everything and hides the loop; its parameters are not changed;
2. a `Model` owns parameters, optimizer state and random state; a step returns its results, and
   `fit` does many steps;
3. the functional form changes nothing: every state is a value, and the old one still works;
4. a `Tensor` owns its gradient; `grad` returns one without storing it.
"""

import numpy as np
from sklearn.datasets import make_moons
from sklearn.preprocessing import scale

from sknet import MLPClassifier, Model, Tensor, grad, nn, no_grad, ops
from sknet.optim import Adam


def main() -> None:
    X, y = make_moons(400, noise=0.2, random_state=0)
    X = scale(X).astype("float32")
    for door in (estimator, model, functional, tensor):
        print(door.__doc__, end="\n\n")
        door(X, y)
        print()


def say(label: str, losses: list[float]) -> None:
    print(f"  {label:26} loss", " -> ".join(f"{loss:.4f}" for loss in losses))


def estimator(X: np.ndarray, y: np.ndarray) -> None:
    """1. Estimator: owns everything, hides the loop."""
    optimizer = Adam(lr=1e-2)
    clf = MLPClassifier((32,), optimizer=optimizer, max_iter=300, tol=1e-3, random_state=0).fit(X, y)
    say("every tenth epoch", clf.loss_curve_[:50:10])
    print(f"  accuracy {clf.score(X, y):.3f} after {clf.n_iter_} epochs")
    print(f"  the optimizer only says how, it holds no state: {optimizer.get_params()}")
    print(f"  its moments live in the fitted model: {list(clf.model_.state.optimizer.slots)}")


def new_model() -> Model:
    network = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 2))
    return Model(network, loss="log_loss", optimizer=Adam(lr=1e-2), random_state=0)


def model(X: np.ndarray, y: np.ndarray) -> None:
    """2. Model: a module, a loss and an optimizer with one owner; a step returns its results."""
    owner = new_model()
    results = [owner.step(X, y) for _ in range(100)]
    say("every 20th step", [result.loss for result in results[::20]])
    last = results[-1]
    for name, gradient in last.gradient.items():
        shape, largest = str(gradient.shape), np.abs(last.update[name]).max()
        print(f"  {name}: gradient of shape {shape:7}, largest change {largest:.1e}")
    print(f"  {owner.progress.step} steps are counted by the model, which they changed")
    history = owner.fit(X, y, epochs=20, batch_size=100, scores="accuracy")  # the estimators' training loop
    say("every fifth epoch of fit", history["loss"][::5])


def functional(X: np.ndarray, y: np.ndarray) -> None:
    """3. Functional: the same step in pieces, nothing mutated."""
    first = current = new_model()
    losses = []
    for _ in range(100):
        loss = current.loss(current(X), y)
        gradient = current.backward(loss)  # a mapping of arrays
        state = current.update(gradient)  # new parameters and optimizer state, read-only
        current = current.replace(state)  # another model; the previous one is unchanged
        losses.append(loss.item())
    say("every 20th step", losses[::20])
    print(f"  the first of these models still has its loss: {first.loss(first(X), y).item():.4f}")

    owner = new_model()
    in_place = [owner.step(X, y).loss for _ in range(100)]
    print(f"  the second door's losses differ by at most {np.abs(np.subtract(in_place, losses)).max():.1e}")


def tensor(X: np.ndarray, y: np.ndarray) -> None:
    """4. Tensor: gradients of any function, not only of networks."""
    target = Tensor((2 * y - 1).astype("float32"))
    features = Tensor(np.column_stack([X, X**2, X**3]))

    def loss(weights: Tensor) -> Tensor:
        return ops.softplus(-target * (features @ weights)).mean()

    weights, losses = Tensor(np.zeros(6, "float32"), requires_grad=True), []
    for _ in range(100):
        value = loss(weights)
        value.backward()  # adds to weights.grad
        with no_grad():
            weights = Tensor((weights - 0.5 * weights.grad).data, requires_grad=True)
        losses.append(value.item())
    say("every 20th step", losses[::20])

    point, v = weights.detach(), Tensor(np.ones(6, "float32"))
    curvature = grad(lambda w: (grad(loss)(w) * v).sum())(point)  # the Hessian times v
    print(f"  the Hessian times a vector: {np.round(curvature.numpy(), 3)}")
    print(f"  grad stores nothing: point.grad is {point.grad}")


if __name__ == "__main__":
    main()
