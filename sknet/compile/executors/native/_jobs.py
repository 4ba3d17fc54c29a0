"""The source of functions with which threads take shares of a work, without Python."""

from enum import IntEnum

__all__ = ["JOBS", "LOOKS", "Job"]


class Job(IntEnum):
    """What describes shared work; threads may read it at any time.

    OPEN: how many shares nobody has taken yet, and, from bit 32 on, how many threads may take some.
    LEFT: how many shares are not done yet.
    FIELDS: address of what describes the shares, to each thread, as it changes meanwhile.
    SHARE, THREAD: bytes from one share to the next there, and from one thread to the next.
    SIZE: bytes of an element.
    LOOKS: how often a thread looks for more work before it rests.
    """

    OPEN = 0
    LEFT = 8  # in another line of the cache
    FIELDS = 16
    SHARE = 17
    THREAD = 18
    SIZE = 19
    LOOKS = 20


LOOKS = 10000  # at what others have left, before a thread returns: about a quarter of a millisecond

JOBS = """
import platform

HAS_PAUSE = platform.machine() in ("x86_64", "AMD64", "i386", "i686")


def word_at(builder, address):
    return builder.inttoptr(address, ir.IntType(64).as_pointer())


@intrinsic
def read_now(typing, address):
    def generate(context, builder, signature, values):
        return builder.load_atomic(word_at(builder, values[0]), "acquire", 8)

    return types.int64(types.int64), generate


@intrinsic
def write_now(typing, address, value):
    def generate(context, builder, signature, values):
        builder.store_atomic(values[1], word_at(builder, values[0]), "release", 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic
def subtract_now(typing, address, value):
    def generate(context, builder, signature, values):
        builder.atomic_rmw("sub", word_at(builder, values[0]), values[1], "acq_rel")
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic
def replaced_now(typing, address, old, new):
    def generate(context, builder, signature, values):
        place = word_at(builder, values[0])
        found = builder.cmpxchg(place, values[1], values[2], "acq_rel", "acquire")
        return builder.zext(builder.extract_value(found, 1), ir.IntType(64))

    return types.int64(types.int64, types.int64, types.int64), generate


@intrinsic
def pause(typing):
    def generate(context, builder, signature, values):
        if HAS_PAUSE:
            kind = ir.FunctionType(ir.VoidType(), [])
            name = "llvm.x86.sse2.pause"
            function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
            builder.call(function, [])
        return context.get_dummy_value()

    return types.void(), generate


@kernel
def take_shares(place, thread):
    taken = 0
    while True:
        found = read_now(place + 8 * {open})
        count, threads = found & 0xFFFFFFFF, found >> 32
        if count == 0 or thread >= threads:
            return taken
        if replaced_now(place + 8 * {open}, found, found - 1):
            first, step = read_now(place + 8 * {fields}), read_now(place + 8 * {share})
            at = first + (count - 1) * step + thread * read_now(place + 8 * {thread})
            images_and_products(at, read_now(place + 8 * {size}))
            subtract_now(place + 8 * {left}, 1)
            taken += 1


@kernel
def serve(place, thread):
    looks = 0
    while looks < read_now(place + 8 * {looks}):
        looks += 1
        if take_shares(place, thread):
            looks = 0
        pause()


@kernel
def lead(place, opened):
    if opened:
        write_now(place + 8 * {left}, opened & 0xFFFFFFFF)
        write_now(place + 8 * {open}, opened)
        take_shares(place, 0)
    for _ in range({most_looks} if opened else 1):
        if read_now(place + 8 * {left}) == 0:
            return 0
        pause()
    return 1

"""
