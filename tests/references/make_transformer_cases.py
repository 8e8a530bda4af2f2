# SPDX-License-Identifier: Apache-2.0
"""Writes tests/ops/cases/transformer.txt: ops that TensorFlow lacks, computed with NumPy."""

import math
import pathlib

import numpy as np

from literals import tensor_literal
from tensors import FLOATING, REDUCED, sample, tensor

_FILE = pathlib.Path(__file__).resolve().parents[1] / "ops" / "cases" / "transformer.txt"
_INF, _NAN = float("inf"), float("nan")
_DTYPES = (*FLOATING, *REDUCED)


def _wide(dtype):
    return "double" if dtype == "double" else "float"


def _literal(value):
    return str(value).lower() if isinstance(value, bool) else str(value)


def _case(op, attributes, operands, outputs):
    """Returns the text of a case; a case without outputs must fail."""
    attrs = ", ".join(f"{name}={_literal(value)}" for name, value in attributes.items())
    lines = [f"case {op} {{{attrs}}}"]
    lines += [f"in {tensor_literal(operand)}" for operand in operands]
    lines += [f"out {tensor_literal(output)}" for output in outputs or ()]
    return "\n".join(lines if outputs else [*lines, "error"]) + "\n"


def _double(array):
    return np.asarray(array).astype(np.float64)


# ---- Gelu ------------------------------------------------------------------------------------


def _gelu_slope(x, approximate):
    """Returns the factor of x, and the derivative of the product."""
    if approximate:
        root = math.sqrt(2 / math.pi)
        e = np.exp(-2 * root * (x + 0.044715 * x**3))
        share = 1 / (1 + e)
        density = share * (1 - share) * 2 * root * (1 + 3 * 0.044715 * x**2)
    else:
        share = 0.5 * np.vectorize(math.erfc, otypes=[float])(-x / math.sqrt(2))
        density = np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    return share, share + x * density


def _gelu(dtype, approximate, x, dy):
    attributes = {"T": dtype, "approximate": approximate}
    share, slope = _gelu_slope(_double(x), approximate)
    yield _case("Gelu", attributes, [x], [tensor(dtype, _double(x) * share)])
    yield _case("GeluGrad", attributes, [dy, x], [tensor(dtype, _double(dy) * slope)])


def _off_the_root(dtype, shape):
    """Returns a sample that avoids the root of the derivative, where its terms cancel."""
    x = np.array(sample(dtype, shape))
    x[(_double(x) > -1) & (_double(x) < -0.5)] = -1.25
    return x


def _gelus():
    for dtype in _DTYPES:
        for approximate in (False, True):
            for shape in ([2, 3], [1, 5], [3, 1], [], [2, 0], [67]):
                yield from _gelu(
                    dtype, approximate, _off_the_root(dtype, shape), sample(dtype, shape, seed=1)
                )
            special = tensor(dtype, [_INF, -_INF, _NAN, 0, 5, -4, 12, 1e-3])
            gradients = tensor(dtype, [1, 1, 1, _INF, _NAN, 1, 2, 1])
            yield from _gelu(dtype, approximate, special, gradients)
    yield _case("GeluGrad", {"T": "float"}, [sample("float", [2]), sample("float", [3])], None)


# ---- LayerNorm -------------------------------------------------------------------------------


def _layer_norm(dtype, x, gamma, beta, epsilon, dy):
    wide = _wide(dtype)
    types = {"T": dtype, "U": wide}
    attributes = {**types, "epsilon": epsilon}
    values, scale = _double(x), _double(gamma)
    mean = values.mean(-1)
    inverse = 1 / np.sqrt(values.var(-1) + _double(np.float32(epsilon)))
    normal = (values - mean[..., None]) * inverse[..., None]
    y = tensor(dtype, normal * scale + _double(beta))
    mean, inverse = tensor(wide, mean), tensor(wide, inverse)
    yield _case("LayerNorm", attributes, [x, gamma, beta], [y, mean, inverse])
    normal = (values - _double(mean)[..., None]) * _double(inverse)[..., None]
    dnormal = _double(dy) * scale
    through = dnormal.mean(-1)[..., None] + normal * (dnormal * normal).mean(-1)[..., None]
    dx = _double(inverse)[..., None] * (dnormal - through)
    rows = tuple(range(x.ndim - 1))
    outputs = [
        tensor(dtype, dx),
        tensor(wide, (_double(dy) * normal).sum(rows)),
        tensor(wide, _double(dy).sum(rows)),
    ]
    yield _case("LayerNormGrad", types, [dy, x, gamma, mean, inverse], outputs)


_ROWS = (
    *([4, 6], [1, 5], [3, 1], [7], [1], [2, 3, 4], [3, 1, 4], [1, 2, 37], [70, 3]),
    *([0, 4], [2, 0]),
)


def _layer_norms():
    for dtype in _DTYPES:
        wide = _wide(dtype)
        for shape in _ROWS:
            columns = shape[-1:]
            yield from _layer_norm(
                dtype,
                sample(dtype, shape),
                sample(wide, columns, seed=1),
                sample(wide, columns, seed=2),
                1e-3,
                sample(dtype, shape, seed=3),
            )
        far = tensor(dtype, [[100, 101, 102, 103], [0, 0, 0, 0]])
        yield from _layer_norm(
            dtype, far, sample(wide, [4]), sample(wide, [4], seed=1), 0.25, sample(dtype, [2, 4])
        )
    x = tensor("float", [[1, _NAN, 2], [_INF, 1, 2], [0, 1, 2]])
    three = sample("float", [3])
    yield from _layer_norm("float", x, three, three, 1e-3, sample("float", [3, 3]))
    types = {"T": "float", "U": "float"}
    yield _case("LayerNorm", types, [x, sample("float", [2]), three], None)
    yield _case("LayerNorm", types, [sample("float", []), three, three], None)
    yield _case("LayerNormGrad", types, [x, sample("float", [2, 3]), three, three, three], None)
    yield _case("LayerNormGrad", types, [x, x, three, sample("float", [2]), three], None)


# ---- attention -------------------------------------------------------------------------------


def _scores(q, k, scale, causal, mask):
    scores = scale * np.einsum("bhnd,bhmd->bhnm", q, k)
    if mask is not None:
        scores = scores + mask
    if causal:
        seen = np.tril(np.ones(scores.shape[-2:], bool))
        scores = np.where(seen, scores, -_INF)
    return scores


def _attention(dtype, q, k, v, dy, scale, causal=False, mask=None, heads_inside=False):
    """Yields both ops. Arguments have heads as dimension 1; `heads_inside` selects their layout."""
    wide = _wide(dtype)
    attributes = {"T": dtype, "U": wide, "scale": scale, "causal": causal}
    if heads_inside:
        attributes["heads_inside"] = True
    masks = []
    if mask is not None:
        masks = [mask]
        attributes["num_masks"] = 1
    scores = _scores(_double(q), _double(k), scale, causal, None if mask is None else _double(mask))
    largest = scores.max(-1, initial=-_INF)
    with np.errstate(invalid="ignore", divide="ignore"):
        if scores.shape[-1] == 0:
            log_sum, weights = largest, scores
        else:
            log_sum = largest + np.log(np.exp(scores - largest[..., None]).sum(-1))
            weights = np.exp(scores - log_sum[..., None])
    y = tensor(dtype, np.einsum("bhnm,bhme->bhne", weights, _double(v)))
    log_sum = tensor(wide, log_sum)
    def rows(array):
        return np.swapaxes(array, 1, 2) if heads_inside else array

    operands = [rows(q), rows(k), rows(v), *masks]
    yield _case("ScaledDotProductAttention", attributes, operands, [rows(y), log_sum])
    dy_wide = _double(dy)
    products = (dy_wide * _double(y)).sum(-1)[..., None]
    dweights = np.einsum("bhne,bhme->bhnm", dy_wide, _double(v))
    dscores = weights * (dweights - products) * scale
    outputs = [
        tensor(dtype, np.einsum("bhnm,bhmd->bhnd", dscores, _double(k))),
        tensor(dtype, np.einsum("bhnm,bhnd->bhmd", dscores, _double(q))),
        tensor(dtype, np.einsum("bhnm,bhne->bhme", weights, dy_wide)),
    ]
    operands = [*map(rows, (dy, q, k, v, y)), log_sum, *masks]
    yield _case("ScaledDotProductAttentionGrad", attributes, operands, map(rows, outputs))


def _operands(dtype, batch, heads, queries, keys, depth, value_depth):
    return (
        sample(dtype, [batch, heads, queries, depth]),
        sample(dtype, [batch, heads, keys, depth], seed=1),
        sample(dtype, [batch, heads, keys, value_depth], seed=2),
        sample(dtype, [batch, heads, queries, value_depth], seed=3),
    )


# Examples, heads, queries, keys, depth of keys, depth of values.
_FULL = ((2, 3, 4, 5, 2, 3), (1, 1, 1, 1, 1, 1), (1, 2, 5, 3, 4, 4), (2, 1, 3, 3, 8, 1))
_EMPTY = (
    *((0, 2, 3, 3, 2, 2), (1, 1, 0, 3, 2, 2), (1, 1, 2, 0, 2, 2)),
    *((1, 1, 2, 3, 0, 2), (1, 1, 2, 3, 2, 0)),
)


def _attentions():
    for dtype in _DTYPES:
        for dims in _FULL:
            for causal in (False, True):
                yield from _attention(dtype, *_operands(dtype, *dims), 0.5, causal)
        for dims in _EMPTY:
            yield from _attention(dtype, *_operands(dtype, *dims), 0.5)
        operands = _operands(dtype, 2, 2, 3, 4, 2, 2)
        for shape in ([2, 2, 3, 4], [2, 1, 1, 4], [3, 4], [1, 2, 3, 1], [4], []):
            yield from _attention(dtype, *operands, 1.0, False, sample(dtype, shape, seed=4))
        padding = tensor(dtype, [[0, -_INF, 0, -_INF], [-_INF, -_INF, 0, 0]]).reshape([2, 1, 1, 4])
        yield from _attention(dtype, *operands, 1.0, False, padding)
        yield from _attention(dtype, *operands, 1.0, True, sample(dtype, [4], seed=4))
        for dims in _FULL + _EMPTY:
            operands = _operands(dtype, *dims)
            yield from _attention(dtype, *operands, 0.5, True, heads_inside=True)
        operands = _operands(dtype, 2, 2, 3, 4, 2, 2)
        for shape in ([2, 2, 3, 4], [2, 1, 1, 4], [4]):
            mask = sample(dtype, shape, seed=4)
            yield from _attention(dtype, *operands, 1.0, False, mask, heads_inside=True)
    # The second query attends to no key.
    q, k, v, dy = _operands("float", 1, 1, 2, 2, 2, 2)
    blind = tensor("float", [[0, 0], [-_INF, -_INF]])
    yield from _attention("float", q, k, v, dy, 1.0, False, blind)
    yield from _attention("float", 1000 * q, k, v, dy, 1.0)
    q[0, 0, 1, 0] = _NAN
    yield from _attention("float", q, k, v, dy, 1.0)
    types = {"T": "float", "U": "float"}
    op, bad = "ScaledDotProductAttention", sample("float", [1, 1, 2, 3])
    yield _case(op, types, [q, bad, v], None)
    yield _case(op, types, [q, k, bad[:, :, :1]], None)
    yield _case(op, types, [q[0], k[0], v[0]], None)
    masked = {**types, "num_masks": 1}
    yield _case(op, masked, [q, k, v, sample("float", [3, 1, 2, 2])], None)
    yield _case(op, masked, [q, k, v, sample("float", [1, 1, 1, 2, 2])], None)
    sums = sample("float", [1, 1, 2])
    yield _case(op + "Grad", types, [bad, q, k, v, dy, sums], None)
    yield _case(op + "Grad", types, [dy, q, k, v, dy, sums[0]], None)


def _large(dtype, depth, value_depth, causal, mask=None, queries=70, heads_inside=False):
    """Yields operands of several tiles; tests compare the results with double-precision results."""
    wide = _wide(dtype)
    # The sums of the gradient are random, so its weights can be large; they must not overflow half.
    scale = 0.0625 if dtype in REDUCED else 0.5
    attributes = {"T": dtype, "U": wide, "scale": scale, "causal": causal}
    if mask:
        attributes["num_masks"] = 1
    if heads_inside:
        attributes["heads_inside"] = True

    def rows(count, columns):
        return f"{dtype}<1,{count},2,{columns}>" if heads_inside else f"{dtype}<1,2,{count},{columns}>"

    q, k = rows(queries, depth), rows(150, depth)
    v, y = rows(150, value_depth), rows(queries, value_depth)
    masks = [f"{dtype}{mask}"] if mask else []
    for op, operands in (
        ("ScaledDotProductAttention", [q, k, v]),
        ("ScaledDotProductAttentionGrad", [y, q, k, v, y, f"{wide}<1,2,{queries}>"]),
    ):
        case = _case(op, attributes, [], [])
        case = case.removesuffix("error\n")
        yield case + "".join(f"random {operand}\n" for operand in operands + masks)


def _larges():
    for causal in (False, True):
        yield from _large("float", 9, 5, causal)
    for dtype in REDUCED:
        for causal in (False, True):
            yield from _large(dtype, 32, 16, causal)
        yield from _large(dtype, 16, 48, False, "<150>")
    for dtype in ("float", *REDUCED):
        yield from _large(dtype, 32, 16, True, heads_inside=True)
    # The second tile of queries sees all of the first tile of keys.
    for dtype in ("float", *REDUCED):
        yield from _large(dtype, 32, 16, True, queries=200)
        yield from _large(dtype, 32, 16, True, "<200,150>", queries=200)
    # With a negative scale, the largest product of q and k has the smallest score.
    attributes = {"T": "float", "U": "float", "scale": -50.0, "causal": False}
    operands = "".join(f"random float<1,1,40,{size}>\n" for size in (9, 9, 5))
    case = _case("ScaledDotProductAttention", attributes, [], []).removesuffix("error\n")
    yield case + operands


_LONG_ROWS = """\
case LayerNorm {T=float, U=float}
random float<3,1500>
random float<1500>
random float<1500>

case LayerNorm {T=float, U=float}
random float<2,5000>
random float<5000>
random float<5000>

case LayerNormGrad {T=float, U=float}
random float<2,5000>
random float<2,5000>
random float<5000>
random float<2>
random float<2>
"""


def main():
    """Writes the file."""
    about = (
        "# Ops of transformers that TensorFlow does not have.\n"
        f"# Made by make_transformer_cases.py with NumPy {np.__version__}.\n"
    )
    cases = [*_gelus(), *_layer_norms(), *_attentions()]
    cases += [*_larges(), _LONG_ROWS]
    _FILE.write_text("\n".join([about, *cases]), encoding="utf-8")
    print(f"{len(cases)} cases, {_FILE.stat().st_size} bytes")


if __name__ == "__main__":
    with np.errstate(all="ignore"):
        main()
