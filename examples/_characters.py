"""What the two character models share: the text, the training loop, its plot, and how models are judged."""

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from sknet import Model

EXPLANATION = """\
This example needs a text: about 1 MB of plays by Shakespeare, in the public domain, are at
    https://github.com/karpathy/char-rnn, data/tinyshakespeare/input.txt
Name that file, any other text in one byte a character, or an .npz file with its bytes as the array "data":
    python examples/{script} --data PATH"""


class Text:
    """A text as character numbers: the first nine tenths to train on, the last tenth to test on."""

    def __init__(self, path: Path) -> None:
        if path.suffix == ".npz":
            with np.load(path) as archive:
                raw = archive["data"]
        else:
            raw = np.frombuffer(path.read_bytes(), np.uint8)
        self.alphabet, codes = np.unique(raw, return_inverse=True)
        self.train, self.test = np.split(codes.astype(np.int64), [len(codes) * 9 // 10])

    def __str__(self) -> str:
        sizes = f"{len(self.train)} characters to train on, {len(self.test)} to test on"
        return f"{sizes}, {len(self.alphabet)} kinds"

    def decoded(self, codes: list[int]) -> str:
        return self.alphabet[codes].astype(np.uint8).tobytes().decode("latin-1")

    def encoded(self, text: str) -> list[int]:
        known = {chr(code): number for number, code in enumerate(self.alphabet)}
        return [known[character] for character in text if character in known] or [0]

    def batch(self, rng: np.random.Generator, rows: int, steps: int) -> tuple[np.ndarray, np.ndarray]:
        """Draw stretches of the training text, and the same one character on: what is to be predicted."""
        starts = rng.integers(0, len(self.train) - steps, rows)
        stretches = self.train[starts[:, None] + np.arange(steps + 1)]
        return stretches[:, :-1], stretches[:, 1:]


def parse(script: str, description: str, steps: int) -> argparse.Namespace | None:
    """Read the command line; None without data, once it is said where to get them."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", type=Path, help="the text: a plain file, or .npz with the array data")
    parser.add_argument("--steps", type=int, default=steps, help=f"training steps, default {steps}")
    parser.add_argument("--seed", type=int, default=0, help="random_state of the model")
    parser.add_argument("--quick", action="store_true", help="a small model for a few seconds, to see it run")
    parser.add_argument("--plot", type=Path, default=Path(script).with_suffix(".png"), help="where to plot")
    arguments = parser.parse_args()
    if arguments.data is None:
        print(EXPLANATION.format(script=script), file=sys.stderr)
        return None
    if not arguments.data.exists():
        parser.error(f"{arguments.data} does not exist")
    return arguments


def train(model: Model, text: Text, steps: int, rows: int, length: int, seed: int) -> list[float]:
    """Train on random stretches of the text; return the loss of every step, in bits per character."""
    rng, bits = np.random.default_rng(seed), []
    for _ in progress(steps, lambda: f"{np.mean(bits[-50:]):.3f} bits per character"):
        result = model.step(*text.batch(rng, rows, length))
        bits.append(result.loss / math.log(2))
    return bits


def progress(steps: int, status: Callable[[], str], width: int = 30) -> Iterator[int]:
    """Count, and draw a bar on the way."""
    start = time.perf_counter()
    shown = -1
    for step in range(steps):
        yield step
        done = (step + 1) * 100 // steps
        if done > shown:
            shown, seconds = done, time.perf_counter() - start
            left = seconds * (steps - step - 1) / (step + 1)
            bar = ("#" * (done * width // 100)).ljust(width, ".")
            print(f"\r[{bar}] {step + 1}/{steps} steps, {status()}, {left:4.0f} s left ", end="", flush=True)
    print(f"\n{steps} steps in {(time.perf_counter() - start) / 60:.1f} minutes")


def bits_per_character(model: Model, codes: np.ndarray, length: int) -> float:
    """Return the mean bits by which a model is surprised, at every character but those it begins with.

    The text is cut into stretches of twice the length that overlap by half: in each, the first half is
    there to be read, and the second counts.
    """
    total = count = 0
    starts = np.arange(0, len(codes) - 2 * length, length)
    for chosen in np.array_split(starts, math.ceil(len(starts) / 64)):
        stretches = codes[chosen[:, None] + np.arange(2 * length + 1)]
        surprise = model.loss_function.log_predict(model(stretches[:, :-1], training=False)).numpy()
        targets = stretches[:, length + 1 :, None]
        total -= np.take_along_axis(surprise[:, length:], targets, axis=-1).sum(dtype=float)
        count += targets.size
    return total / count / math.log(2)


def drawn(logits: np.ndarray, rng: np.random.Generator, temperature: float = 0.8) -> int:
    """Draw a character; a temperature below 1 prefers likely ones."""
    return int(np.argmax(logits / temperature + rng.gumbel(size=logits.shape)))  # which is a draw


def plot(bits: list[float], path: Path) -> None:
    """Plot the loss of training, smoothed, if matplotlib is there."""
    try:
        import matplotlib
    except ImportError:
        print('no plot: matplotlib is not installed (pip install "sknet[plot]")')
        return
    matplotlib.use("agg")
    from matplotlib import pyplot

    width = max(1, len(bits) // 50)
    smooth = np.convolve(bits, np.ones(width) / width, "valid")
    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    axes.plot(bits, color="0.8", linewidth=0.5)
    axes.plot(np.arange(len(smooth)) + width - 1, smooth)
    axes.set(xlabel="step", ylabel="bits per character", ylim=(min(smooth) * 0.9, max(bits)))
    figure.savefig(path)
    print(f"the loss is plotted in {path}")
