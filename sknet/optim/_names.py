"""What optimizers and schedules of other libraries are called here."""

OPTIMIZERS = {
    "lr_scheduler": "the schedules are in sknet.optim.schedules, and are given as an optimizer's lr",
    "swa_utils": "use SWA or EMA around an optimizer",
    "ASGD": "use SWA(SGD(...))",
    "AveragedModel": "use SWA or EMA around an optimizer",
    "Rmsprop": "use RMSprop",
    "Nadam": "use NAdam",
    "ScheduleFreeAdam": "use ScheduleFreeAdamW",
    "AdamWScheduleFree": "use ScheduleFreeAdamW",
    "chain": "combinators wrap one another, EMA(ClipNorm(Adam(...)))",
    **dict.fromkeys(("clip_grad_norm_", "clip_by_global_norm"), "use ClipNorm around an optimizer"),
    **dict.fromkeys(("clip_grad_value_", "clip"), "use ClipValue around an optimizer"),
    **dict.fromkeys(("MultiSteps", "apply_every"), "use Accumulate around an optimizer"),
    **dict.fromkeys(("multi_transform", "partition"), "use Groups, with patterns of parameter names"),
}

SCHEDULES = {
    **dict.fromkeys(("CosineAnnealingLR", "CosineDecay", "cosine_decay_schedule"), "use Cosine"),
    **dict.fromkeys(("CosineAnnealingWarmRestarts", "CosineDecayRestarts"), "use CosineRestarts"),
    **dict.fromkeys(("coslog4", "CosLog4"), "use CosLog"),
    **dict.fromkeys(("flat_cos", "FlatCosine", "FlatCos"), "use FlatThenCosine"),
    "StepLR": "use Step",
    **dict.fromkeys(("MultiStepLR", "PiecewiseConstantDecay"), "use MultiStep"),
    **dict.fromkeys(("ExponentialLR", "ExponentialDecay"), "use Exponential"),
    "LinearLR": "use Linear, or WarmUp for a rise",
    **dict.fromkeys(("PolynomialLR", "PolynomialDecay"), "use Polynomial"),
    "ConstantLR": "use Constant",
    "InverseTimeDecay": "use InverseScaling",
    "OneCycleLR": "use OneCycle",
    "CyclicLR": "use Cyclic",
    "ReduceLROnPlateau": "use Adaptive, with a patience",
    "SequentialLR": "use Joined",
    **dict.fromkeys(("ChainedScheduler", "MultiplicativeLR"), "use Product"),
    **dict.fromkeys(("LambdaLR", "LearningRateScheduler"), "any function of a Progress is a schedule"),
}
