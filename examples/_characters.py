"""Helpers of the two character models: the text, its segments, the plot, and the evaluation."""

import argparse
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np

from sknet import NetClassifier
from sknet.callbacks import Callback

EXPLANATION = """\
This example needs a text: about 1 MB of plays by Shakespeare, in the public domain, are at
    https://github.com/karpathy/char-rnn, data/tinyshakespeare/input.txt
Name that file, any other text in one byte per character, or an .npz file with its bytes as the array "data":
    python examples/{script} --data PATH"""


class Text:
    """A text as character numbers: the first nine tenths to train on, the last tenth to test on."""

    def __init__(self, path: Path) -> None:
        if path.suffix == ".npz":
            with np.load(path) as archive:
                raw = archive["data"]
        else:
            raw = np.frombuffer(path.read_bytes(), np.uint8)
        train, test = np.split(raw, [len(raw) * 9 // 10])
        self.alphabet, codes = np.unique(train, return_inverse=True)
        self.train = codes.astype(np.int64)
        self.test = np.searchsorted(self.alphabet, test[np.isin(test, self.alphabet)])

    def __str__(self) -> str:
        sizes = f"{len(self.train)} characters to train on, {len(self.test)} to test on"
        return f"{sizes}, {len(self.alphabet)} kinds"

    def decoded(self, codes: list[int]) -> str:
        return self.alphabet[codes].astype(np.uint8).tobytes().decode("latin-1")

    def encoded(self, text: str) -> list[int]:
        known = {chr(code): number for number, code in enumerate(self.alphabet)}
        return [known[character] for character in text if character in known] or [0]

    def stretches(self, length: int) -> tuple[np.ndarray, np.ndarray]:
        """Split the training text into segments that overlap by half, and the same shifted by a character."""
        starts = np.arange(0, len(self.train) - length, length // 2)
        found = self.train[starts[:, None] + np.arange(length + 1)]
        return found[:, :-1], found[:, 1:]


def parse(script: str, description: str, epochs: int) -> argparse.Namespace | None:
    """Read the command line; without data, print where to get them and return None."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", type=Path, help="the text: a plain file, or .npz with the array data")
    parser.add_argument("--epochs", type=int, default=epochs, help=f"how many, default {epochs}")
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


class Bits(Callback):
    """Records the loss of every step, in bits per character."""

    def on_fit_begin(self, fit: Any) -> None:
        self.bits_: list[float] = []

    def on_block_end(self, fit: Any) -> None:
        self.bits_ += (fit.losses / math.log(2)).tolist()


def bits_per_character(net: NetClassifier, codes: np.ndarray, length: int) -> float:
    """Return a network's cross-entropy in bits per character, except for the first characters.

    The text is split into segments of twice the length that overlap by half: in each, the first half is
    context, and only the second is evaluated.
    """
    starts = np.arange(0, len(codes) - 2 * length, length)
    stretches = codes[starts[:, None] + np.arange(2 * length + 1)]
    surprise = -net.predict_log_proba(stretches[:, :-1])[:, length:]
    targets = np.searchsorted(net.classes_, stretches[:, length + 1 :])
    return float(np.take_along_axis(surprise, targets[..., None], axis=-1).mean(dtype=float) / math.log(2))


def drawn(logits: np.ndarray, rng: np.random.Generator, temperature: float = 0.8) -> int:
    """Draw a character; a temperature below 1 prefers likely ones."""
    return int(
        np.argmax(logits / temperature + rng.gumbel(size=logits.shape))
    )  # with Gumbel noise the maximum is a sample


def plot(bits: list[float], path: Path) -> None:
    """Plot the training loss, smoothed, if matplotlib is installed."""
    try:
        import matplotlib
    except ImportError:
        print('no plot: matplotlib is not installed (pip install "scikit-neural[plot]")')
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
