"""What connects loss, optimizer and network? This prints it, before and after one step.

In a loop of ``backward`` and ``step`` calls the three seem unrelated: the loss reaches the parameters
through the recorded computation, and the optimizer through a list it was given at the start. In sknet
there is one answer. Loss and optimizer are settings, like a learning rate: they hold no data before or
after the step. The `Model` holds everything that changes, and the step returns what was passed between
them: loss, gradient, update.
"""

import numpy as np

from sknet import Model, nn
from sknet.losses import SquaredError
from sknet.optim import Adam

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (256, 2)).astype("float32")
y = X @ [[1.0], [-2.0]] + 0.5

loss, optimizer = SquaredError(), Adam(lr=0.05)
model = Model(nn.Linear(2, 1), loss=loss, optimizer=optimizer, random_state=0)


def report(title):
    state = model.state
    print(title)
    print(f"  the loss        {loss!r} holds {vars(loss)}")
    print(f"  the optimizer   {optimizer!r} holds {vars(optimizer)}")
    print(f"  the module      weight {model.module.weight.numpy().ravel()}, grad {model.module.weight.grad}")
    print(f"  the model       weight {model.parameters['weight'].ravel()}, steps {state.progress.step}")
    for slot, values in state.optimizer.slots.items():
        print(f"                  {slot:6} {values[:2]}")


np.set_printoptions(precision=4, suppress=True)
report("before")
result = model.step(X, y)
print("one step: model.step(X, y) returned")
print(f"  loss {result.loss:.4f}, from the output and the targets")
print(f"  gradient {result.gradient['weight'].ravel()}, from the loss and the record of the computation")
print(f"  update {result.update['weight'].ravel()}, from the gradient, the moments and the optimizer's rule")
report("after")

print("and 60 steps later: loss", f"{[model.step(X, y).loss for _ in range(60)][-1]:.4f}")
