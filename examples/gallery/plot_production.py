"""
Saving, ONNX and the frozen pipeline
====================================

A fitted pipeline becomes a frozen predictor for a service, or an ONNX model for other runtimes. The
picture compares the time for a single row, and the sizes of the files.
"""

import tempfile
import timeit
from pathlib import Path

import joblib
import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sknet
from sknet import MLPClassifier, onnx

X, y = load_breast_cancer(return_X_y=True)
X = X.astype("float32")
pipeline = make_pipeline(StandardScaler(), MLPClassifier((64,), early_stopping=True, random_state=0)).fit(
    X, y
)

# %%
# Frozen, scaler and network are one predictor with bitwise identical results. The files:

predictor = sknet.freeze(pipeline)
assert (predictor.predict_proba(X) == pipeline.predict_proba(X)).all()

folder = Path(tempfile.mkdtemp())
joblib.dump(pipeline, folder / "pipeline.joblib")
sknet.save(pipeline[-1], folder / "network.safetensors")
sknet.save(predictor, folder / "frozen.safetensors")
predictor.to_python(folder / "predictor.py")
onnx.export(pipeline[-1], folder / "network.onnx", dtype="float32")
sizes = {path.name: path.stat().st_size / 1024 for path in sorted(folder.iterdir())}

# %%
# The time for one row:

row = X[:1]
makers = {
    "pipeline": lambda: pipeline.predict_proba(row),
    "frozen pipeline": lambda: predictor.predict_proba(row),
}
times = {name: min(timeit.repeat(call, number=50, repeat=5)) / 50 * 1e6 for name, call in makers.items()}

figure, axes = plt.subplots(1, 2, figsize=(11, 3.4), layout="constrained")
for ax, values, label in zip(axes, (times, sizes), ("microseconds for a row", "KiB"), strict=True):
    bars = ax.barh(list(values), list(values.values()), color=["C0", "C1", "C2", "C3", "C4"][: len(values)])
    ax.bar_label(bars, fmt="%.0f", padding=3)
    ax.set_xlabel(label)
    ax.margins(x=0.12)
plt.show()
