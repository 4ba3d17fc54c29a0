"""The names here of layers, losses and methods of modules that other libraries call otherwise."""

__all__ = ["ARGUMENTS", "ATTRIBUTES", "MODULE", "NAMES", "RENAMED"]

_DTYPE = "use module.to(dtype='{}')"
_OPS = "use the functions of sknet.ops"


def _renamed(ours: str, *others: str) -> dict[str, str]:
    return dict.fromkeys(others, f"use {ours}")


def _for_ranks(ours: str, *others: str) -> dict[str, str]:
    """Return hints for classes that others have for one, two and three axes."""
    return {f"{other}{n}d": f"use {ours.format(n)}" for other in others for n in (1, 2, 3)}


LAYERS = {
    **_for_ranks("nn.BatchNorm, for inputs of any number of axes", "BatchNorm"),
    **_for_ranks("nn.InstanceNorm, for inputs of any number of axes", "InstanceNorm"),
    **_for_ranks("nn.LazyBatchNorm", "LazyBatchNorm"),
    **_for_ranks("nn.Pad{}d(padding)", "ConstantPad", "ZeroPad"),
    **_for_ranks("nn.Pad{}d(padding, 'reflect')", "ReflectionPad"),
    **_for_ranks("nn.Pad{}d(padding, 'replicate')", "ReplicationPad"),
    **_for_ranks("nn.Pad{}d(padding, 'circular')", "CircularPad"),
    **_renamed("nn.BatchNorm", "BatchNormalization", "SyncBatchNorm"),
    **_renamed("nn.LayerNorm", "LayerNormalization"),
    **_renamed("nn.GroupNorm", "GroupNormalization"),
    **_renamed("nn.PeriodicEmbedding", "PeriodicEmbeddings", "PLREmbedding"),
    **_renamed("nn.PiecewiseLinearEncoding", "PiecewiseLinearEmbeddings"),
    **_renamed("nn.BatchEnsembleLinear", "LinearBatchEnsemble", "LinearEfficientEnsemble"),
    **_renamed("nn.EnsembleLinear", "LinearEnsemble", "NLinear"),
    **_renamed("nn.Linear", "Dense", "Affine", "FullyConnected"),
    **_renamed("nn.LazyLinear", "LazyDense"),
    **_renamed("nn.Conv1d", "Conv1D"),
    **_renamed("nn.Conv2d", "Conv2D", "Conv"),
    **_renamed("nn.ConvTranspose2d", "Conv2DTranspose", "ConvTranspose"),
    **_renamed("nn.MaxPool1d", "MaxPooling1D", "MaxPool1D"),
    **_renamed("nn.MaxPool2d", "MaxPooling2D", "MaxPool2D"),
    **_renamed("nn.AvgPool2d", "AveragePooling2D", "AvgPool2D"),
    **_renamed("nn.AdaptiveAvgPool2d(1)", "GlobalAveragePooling2D", "GlobalAvgPool2D"),
    **_renamed("nn.AdaptiveMaxPool2d(1)", "GlobalMaxPooling2D", "GlobalMaxPool2D"),
    **_renamed("nn.Upsample(scale_factor=2)", "UpSampling2D", "UpsamplingNearest2d"),
    **_renamed("nn.Upsample(scale_factor=2, mode='bilinear')", "UpsamplingBilinear2d"),
    **_renamed("nn.MultiheadAttention", "MultiHeadAttention", "MultiHeadDotProductAttention"),
    **_renamed("nn.TransformerEncoder and nn.TransformerDecoder", "Transformer"),
    **_renamed("nn.Softmax(axis=1)", "Softmax2d"),
    **_renamed("nn.SiLU", "Swish"),
    **_renamed("nn.Sigmoid", "Logistic"),
    **_renamed("nn.RNN", "SimpleRNN"),
    **_renamed("nn.Parameter, which waits to be drawn with shape= and draw=", "UninitializedParameter"),
    **_renamed("module.register_buffer(name, value)", "Buffer"),
    **_renamed("sknet.optim.ClipNorm around the optimizer", "clip_grad_norm_"),
    **_renamed("sknet.optim.ClipValue around the optimizer", "clip_grad_value_"),
    "functional": _OPS,
    "F": _OPS,
    "DataParallel": "leave it out: a model computes on one device",
}

LOSSES = {
    **_renamed("sknet.losses.LogLoss, from logits", "CrossEntropyLoss", "BCEWithLogitsLoss", "CrossEntropy"),
    **_renamed("sknet.losses.LogLoss(multilabel=True)", "MultiLabelSoftMarginLoss"),
    **_renamed("sknet.losses.LogLoss, from logits, or sknet.losses.NLL, from probabilities", "NLLLoss"),
    **_renamed("sknet.losses.BinaryCrossEntropy, or from logits sknet.losses.LogLoss", "BCELoss"),
    **_renamed("sknet.losses.SquaredError, which is half of it", "MSELoss"),
    **_renamed("sknet.losses.AbsoluteError", "L1Loss"),
    **_renamed("sknet.losses.Huber", "HuberLoss", "SmoothL1Loss"),
    **_renamed("sknet.losses.KLDivergence, from logits", "KLDivLoss"),
    **_renamed("sknet.losses.Poisson", "PoissonNLLLoss"),
    **_renamed("sknet.losses.GaussianNLL", "GaussianNLLLoss"),
    **_renamed("sknet.losses.Hinge", "HingeLoss"),
    **_renamed("sknet.losses.CTC, from logits", "CTCLoss"),
    **_renamed("sknet.losses.TripletMargin", "TripletMarginLoss"),
    **_renamed("sknet.losses.CosineEmbedding", "CosineEmbeddingLoss"),
    **_renamed("sknet.losses.MarginRanking", "MarginRankingLoss"),
    **_renamed("sknet.losses.MultiMargin", "MultiMarginLoss"),
}

NAMES = LAYERS | LOSSES
"""By names in other libraries' modules of layers."""

ATTRIBUTES = {
    **dict.fromkeys(("double", "float64"), _DTYPE.format("float64")),
    **dict.fromkeys(("float", "float32"), _DTYPE.format("float32")),
    "half": "modules compute in float32 or float64: use module.to(dtype=...)",
    "bfloat16": "use Model(module, dtype='bfloat16'), whose products on a GPU round their factors",
    "cuda": "use module.to(device='cuda')",
    "cpu": "use module.to(device='cpu')",
    "add_module": "use module.register_module(name, module), or assign it",
    "register_backward_hook": "use module.register_full_backward_hook(hook)",
    "compile": "use Model(module, ...), which compiles its steps",
    "trainable_variables": "use module.parameters()",
    "get_weights": "use module.state_dict()",
    "set_weights": "use module.load_state_dict(state)",
    "save": "use pickle, or module.state_dict()",
    "fit": "use Model(module, loss=..., optimizer=...), or sknet.MLPClassifier",
}
"""By attributes of other libraries' modules."""

RENAMED = {
    "units": ("hidden_size", "out_features"),
    **dict.fromkeys(("filters", "channels"), ("out_channels",)),
    "strides": ("stride",),
    "dilation_rate": ("dilation",),
    "use_bias": ("bias",),
    **dict.fromkeys(("kernel_initializer", "embeddings_initializer", "weight_init"), ("init",)),
    "recurrent_initializer": ("recurrent_init",),
    "pool_size": ("kernel_size",),
    "rate": ("p", "dropout"),
    "dim": ("axis",),
    **dict.fromkeys(("epsilon", "layer_norm_eps", "epsilon_"), ("eps",)),
    **dict.fromkeys(("elementwise_affine", "scale"), ("affine",)),
    **dict.fromkeys(("center", "beta"), ("bias",)),
    **dict.fromkeys(("input_dim", "vocab_size"), ("num_embeddings", "in_features", "input_size")),
    **dict.fromkeys(("input_shape", "in_dim"), ("in_features", "input_size", "in_channels")),
    "output_dim": ("embedding_dim", "out_features"),
    "out_dim": ("out_features",),
    "d_model": ("embed_dim",),
    **dict.fromkeys(("nhead", "n_heads", "heads"), ("num_heads",)),
    **dict.fromkeys(("dim_feedforward", "intermediate_dim", "ff_dim"), ("feedforward_dim",)),
    "nonlinearity": ("activation",),
    **dict.fromkeys(("return_sequences", "return_state"), ("returns",)),
    "n_layers": ("num_layers",),
    "min_val": ("min",),
    "max_val": ("max",),
    "interpolation": ("mode",),
    "mask_zero": ("padding_idx",),
}
"""Parameters of layers in other libraries, and ours: the first that a layer has is suggested."""

_AFTER = "put it behind the layer, nn.Sequential(nn.{0}(...), nn.ReLU())"
_MAKES = (
    "it makes its layers itself, nn.{0}(num_layers=..., embed_dim=..., num_heads=...); layers of your own go "
    "one after another in nn.Sequential(layer, layer.copy())"
)
_CHANNELS = "leave it out: channels are the second axis, (n, channels, ...)"

ARGUMENTS = {
    "Module": {
        "inplace": "leave it out: compiled steps compute in place where they can",
        "dtype": "use module.to(dtype=...), or Model(module, dtype=...)",
        "name": "leave it out: a module's name is the attribute that holds it",
        **dict.fromkeys(("seed", "random_state"), "use module.initialize(seed)"),
        "batch_first": "leave it out: the first axis is always the samples, (n, time, features)",
        **dict.fromkeys(("data_format", "channels_last"), _CHANNELS),
        **dict.fromkeys(
            ("kernel_regularizer", "weight_decay"), "use Model(module, alpha=...) or sknet.optim.WeightDecay"
        ),
        "activation": _AFTER,
        "trainable": "use module.requires_grad_(False)",
    },
    "_Recurrent": {
        "stateful": "leave it out: a layer returns its states, and takes them, layer(x, states)",
        "go_backwards": "use bidirectional=True, which reads both ways",
        "time_major": "leave it out: the first axis is always the samples, (n, time, features)",
        "proj_size": "put nn.Linear behind the layer",
        "recurrent_dropout": "use dropout, which is between the layers",
        "activation": "leave it out: its functions are fixed; nn.RNN has an activation",
    },
    "_Stack": {
        **dict.fromkeys(("encoder_layer", "decoder_layer"), _MAKES),
        "norm": "leave it out: norm_first=True has a last norm",
        "enable_nested_tensor": "leave it out",
    },
    "MultiheadAttention": {
        "key_dim": "use embed_dim, which is num_heads times as long",
        **dict.fromkeys(("kdim", "vdim"), "leave it out: keys and values have embed_dim features"),
        **dict.fromkeys(("add_bias_kv", "add_zero_attn"), "leave it out"),
    },
    "Embedding": {
        **dict.fromkeys(("max_norm", "norm_type", "scale_grad_by_freq", "sparse"), "leave it out"),
    },
}  # fmt: skip
"""What to do instead of using parameters that a layer and its bases lack, by the names of these classes."""

MODULE = {"_Stack": _MAKES}
"""What to do instead of passing a module, by the names of classes that take none."""
