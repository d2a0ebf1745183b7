"""Machine instructions that kernels call, as instructions to LLVM. `packed.py` says what each does.

Imported when the first kernel is needed, for it imports numba: half a second of a core.
"""

import sys
from typing import Any

from llvmlite import ir
from numba.core import types

_WORD, _TWO_WORDS, _LANES = ir.IntType(64), ir.IntType(128), ir.VectorType(ir.IntType(64), 8)
_BYTES = ir.VectorType(ir.IntType(8), 64)
_NEIGHBOURS = ir.Constant(ir.VectorType(ir.IntType(32), 8), [1, 0, 3, 2, 5, 4, 7, 6])


def _compute_pointer(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    """Generate code that computes a pointer to an array element, as a pointer to a 64-bit word. Return the pointer.

    Args:
        context: numba's target context.
        builder: The LLVM IR builder of the function.
        array_type: The numba type of the array.
        array: LLVM value of the array.
        index: LLVM value of the index.
    """
    start = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(start, [index]), _WORD.as_pointer())


def _swap_if_big_endian(builder: Any, word: Any) -> Any:
    """Generate code that reverses the bytes of a word on big-endian machines.

    The first byte in memory is then always the lowest byte of the word.
    """
    return builder.bswap(word) if sys.byteorder == "big" else word


def load8(typing_context: Any, data: Any, index: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _compute_pointer(context, builder, signature.args[0], *arguments)
        return _swap_if_big_endian(builder, builder.load(place, align=1))

    return types.uint64(data, types.int64), generate


def load8_at(typing_context: Any, address: Any, index: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        start = builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())
        place = builder.bitcast(builder.gep(start, [arguments[1]]), _WORD.as_pointer())
        return _swap_if_big_endian(builder, builder.load(place, align=1))

    return types.uint64(types.int64, types.int64), generate


def store8(typing_context: Any, data: Any, index: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _compute_pointer(context, builder, signature.args[0], *arguments[:2])
        builder.store(_swap_if_big_endian(builder, arguments[2]), place, align=1)
        return context.get_dummy_value()

    return types.void(data, types.int64, types.uint64), generate


def high_product(typing_context: Any, one: Any, other: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        one, other = (builder.zext(each, _TWO_WORDS) for each in arguments)
        return builder.trunc(builder.lshr(builder.mul(one, other), ir.Constant(_TWO_WORDS, 64)), _WORD)

    return types.uint64(types.uint64, types.uint64), generate


def add_stripe(typing_context: Any, lanes: Any, data: Any, index: Any, keys: Any, key_index: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kinds, starts = signature.args, (ir.Constant(_WORD, 0), arguments[2], arguments[4])
        places = [
            builder.bitcast(_compute_pointer(context, builder, kinds[at], arguments[at], start), _LANES.as_pointer())
            for at, start in zip((0, 1, 3), starts, strict=True)
        ]
        values, keys = (_swap_if_big_endian(builder, builder.load(place, align=1)) for place in places[1:])
        keyed = builder.xor(values, keys)
        low = builder.and_(keyed, ir.Constant(_LANES, [0xFFFFFFFF] * 8))
        products = builder.mul(low, builder.lshr(keyed, ir.Constant(_LANES, [32] * 8)))
        sums = builder.add(products, builder.shuffle_vector(values, values, _NEIGHBOURS))
        builder.store(builder.add(builder.load(places[0], align=8), sums), places[0], align=8)
        return context.get_dummy_value()

    return types.void(lanes, data, types.int64, keys, types.int64), generate


def word_bits(typing_context: Any, data: Any, index: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = builder.bitcast(_compute_pointer(context, builder, signature.args[0], *arguments), _BYTES.as_pointer())
        values = builder.load(place, align=1)
        small = builder.or_(values, ir.Constant(_BYTES, [0x20] * 64))
        letters, digits = (
            builder.icmp_unsigned(
                "<", builder.sub(each, ir.Constant(_BYTES, [first] * 64)), ir.Constant(_BYTES, [n] * 64)
            )
            for each, first, n in ((small, ord("a"), 26), (values, ord("0"), 10))
        )
        return _to_bits(builder, builder.or_(letters, digits))

    return types.uint64(data, types.int64), generate


def equal_bits(typing_context: Any, data: Any, index: Any, byte: Any) -> Any:
    return types.uint64(data, types.int64, types.uint8), _build_comparison("==")


def below_bits(typing_context: Any, data: Any, index: Any, byte: Any) -> Any:
    return types.uint64(data, types.int64, types.uint8), _build_comparison("<")


def _build_comparison(sign: str) -> Any:
    """Return a code generator that compares 64 bytes with one byte, and returns the results as the bits of a word.

    The bit of the first byte is the lowest.

    Args:
        sign: The comparison operator, such as "==" or "<".
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = builder.bitcast(
            _compute_pointer(context, builder, signature.args[0], *arguments[:2]), _BYTES.as_pointer()
        )
        one = builder.insert_element(ir.Constant(_BYTES, ir.Undefined), arguments[2], ir.Constant(ir.IntType(32), 0))
        each = builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(ir.IntType(32), 64), [0] * 64))
        return _to_bits(builder, builder.icmp_unsigned(sign, builder.load(place, align=1), each))

    return generate


def _to_bits(builder: Any, flags: Any) -> Any:
    """Generate code that converts 64 flags to the bits of a word, and return the word.

    The first flag is the lowest bit.
    """
    bits = builder.bitcast(flags, _WORD)
    return builder.bitreverse(bits) if sys.byteorder == "big" else bits


def trailing_zeros(typing_context: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), generate
