"""Helpers of the optimizer tests."""

import numpy as np
from sklearn.base import clone

from sknet.optim.schedules import Progress


def gradient_series(n_steps, shape, seed=0):
    """Draw gradients of very different sizes, as in training."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n_steps, *shape)) * np.exp(rng.normal(size=shape))


def with_eps(optimizer, eps):
    """Return a clone with this value for each ``eps``, including wrapped optimizers.

    A large value keeps adaptive steps small where a gradient is only rounding.
    """
    names = [name for name in optimizer.get_params() if name.rpartition("__")[2] == "eps"]
    return clone(optimizer).set_params(**dict.fromkeys(names, eps))


def follow(optimizer, gradients, start, progress=None):
    """Return the parameters after each update of a series of gradients."""
    params, state = start, optimizer.init(start)
    path = []
    for step, gradient in enumerate(gradients):
        now = Progress(step=step) if progress is None else progress(step)
        delta, state = optimizer.update(gradient, state, params, now)
        params = params + delta
        path.append(params)
    return np.array(path)


def follow_torch(optimizer_of, gradients, start, schedule_of=None):
    """Do the same with a PyTorch optimizer, created by a function of the parameters."""
    import torch

    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)  # other state of the optimizer
    try:
        return _follow_torch(torch, optimizer_of, gradients, start, schedule_of)
    finally:
        torch.set_default_dtype(before)


def _follow_torch(torch, optimizer_of, gradients, start, schedule_of):
    param = torch.nn.Parameter(torch.tensor(start))
    optimizer = optimizer_of(torch.optim, [param])
    schedule = schedule_of(torch.optim.lr_scheduler, optimizer) if schedule_of else None
    path = []
    for gradient in gradients:
        param.grad = torch.tensor(gradient)
        optimizer.step()
        if schedule:
            schedule.step()
        path.append(param.detach().numpy().copy())
    return np.array(path)
