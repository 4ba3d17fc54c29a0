"""The source of what compilers do not find: copies of rows by the C library, and nine sums at once.

Sums over samples of products of images and gradients, for kernels of three by three, stay in registers while
samples pass by. Every product and sum is rounded by itself, in the order of samples.
"""

__all__ = ["NINE", "NINE_SUMS", "ROW"]

ROW = """
from numba.core import cgutils


@intrinsic
def copy_row(typing, target, source, count):
    def generate(context, builder, signature, values):
        places = [builder.inttoptr(x, ir.IntType(8).as_pointer()) for x in values[:2]]
        cgutils.raw_memcpy(builder, *places, values[2], 1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate

"""
NINE = '''
def nine_sums(kind, size, lanes):
    """Return a function that adds up products of nine pieces of images with gradients of so many places."""

    @intrinsic
    def call(typing, image, image_step, width, slope, slope_step, count, out, out_step, goes_on):
        def generate(context, builder, signature, values):
            image, image_step, width, slope, slope_step, count, out, out_step, goes_on = values
            word, vector = ir.IntType(64), ir.VectorType(kind, lanes)

            def place(address):
                return builder.inttoptr(address, vector.as_pointer())

            def load(address):
                return builder.load(place(address), align=size)

            def products(i):
                x = builder.add(image, builder.mul(i, image_step))
                g = load(builder.add(slope, builder.mul(i, slope_step)))
                return [builder.fmul(load(builder.add(x, part)), g) for part in parts]

            lines = [builder.mul(width, word(i)) for i in range(3)]
            parts = [builder.add(line, word(j * size)) for line in lines for j in range(3)]
            targets = [builder.add(out, builder.mul(out_step, word(k))) for k in range(9)]
            old, new, loop, body, done = (builder.append_basic_block() for _ in range(5))
            builder.cbranch(builder.icmp_signed("==", goes_on, word(0)), new, old)
            builder.position_at_end(old)
            before = [load(target) for target in targets]
            builder.branch(loop)
            builder.position_at_end(new)
            first = products(word(0))
            builder.branch(loop)
            builder.position_at_end(loop)
            i, totals = builder.phi(word), [builder.phi(vector) for _ in range(9)]
            builder.cbranch(builder.icmp_signed("<", i, count), body, done)
            builder.position_at_end(body)
            sums = [builder.fadd(total, each) for total, each in zip(totals, products(i))]
            after = builder.add(i, word(1))
            builder.branch(loop)
            for phi, *given in zip((i, *totals), (word(0), *before), (word(1), *first), (after, *sums)):
                for value, block in zip(given, (old, new, body)):
                    phi.add_incoming(value, block)
            builder.position_at_end(done)
            for total, target in zip(totals, targets):
                builder.store(total, place(target), align=size)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 9), generate

    return call

'''

NINE_SUMS = """
many, few, one = [nine_sums(ir.FloatType(), 4, n) for n in (16, 4, 1)]


@kernel
def add_nine(images, image_step, width, slopes, slope_step, count, out, places, goes_on):
    line, q = places * 4, 0
    while q + 16 <= places:
        x, g, to = images + q * 4, slopes + q * 4, out + q * 4
        many(x, image_step, width, g, slope_step, count, to, line, goes_on)
        q += 16
    while q + 4 <= places:
        x, g, to = images + q * 4, slopes + q * 4, out + q * 4
        few(x, image_step, width, g, slope_step, count, to, line, goes_on)
        q += 4
    while q < places:
        x, g, to = images + q * 4, slopes + q * 4, out + q * 4
        one(x, image_step, width, g, slope_step, count, to, line, goes_on)
        q += 1

"""
