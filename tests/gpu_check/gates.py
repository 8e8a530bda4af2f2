# SPDX-License-Identifier: Apache-2.0
"""Speed goals on a GPU, their verdicts on measurements, and the table. Used by run.py."""

import collections
import random
import statistics

OURS, WITHOUT_STRATEGY = "mirrorflow", "mirrorflow, no strategy"
WARM = "mirrorflow, warm"  # a process whose kernels are all in the cache
EAGER, COMPILE, AUTOTUNE, JAX = "torch eager", "torch compile", "torch max-autotune", "jax jit"
LOSS_TOLERANCE = 5e-3  # relative; products with 10-bit fractions round in a different order
RESAMPLES = 1000
# The other models are large, and each program names their weights and draws their values
# differently, so their losses are not comparable.
EQUAL_WEIGHTS = ("mlp", "cnn")

Gate = collections.namedtuple("Gate", "gate what bound at_most figure")


def _interval(values):
    """Returns the median and its 90 % interval, by bootstrap."""
    generator = random.Random(1)
    medians = sorted(statistics.median(generator.choices(values, k=len(values)))
                     for _ in range(RESAMPLES))
    return statistics.median(values), medians[RESAMPLES // 20], medians[-RESAMPLES // 20]


def _ratio(theirs, ours):
    """Returns the ratio of times over the rounds where both programs took a turn."""

    def figure(by_name):
        a, b = by_name.get(theirs, {}), by_name.get(ours, {})
        pairs = list(zip(a.get("rounds_ms", []), b.get("rounds_ms", [])))
        return _interval([x / y for x, y in pairs]) if pairs else None

    return figure


def _quotient(a, b, key):
    def figure(by_name):
        over, under = by_name.get(a, {}).get(key), by_name.get(b, {}).get(key)
        return (over / under,) * 3 if over and under else None

    return figure


def _host(by_name):
    us = by_name.get(OURS, {}).get("host_us")
    return (us,) * 3 if us else None


def _first_step(by_name):
    """Returns the ratio for a cold start, with none of our kernels in a cache."""
    if by_name.get(OURS, {}).get("compilations", 0) == 0:
        return None
    return _quotient(COMPILE, OURS, "first_step_ms")(by_name)


def _warm_first_step(by_name):
    if by_name.get(WARM, {}).get("compilations", 1) != 0:
        return None
    return _quotient(COMPILE, WARM, "first_step_ms")(by_name)


def _values(by_name, name):
    """Returns the values of a line of `gpu_check figures`, one per round."""
    return by_name.get(name, {}).get("values", [])


def _alone(name):
    def figure(by_name):
        values = _values(by_name, name)
        return _interval(values) if values else None

    return figure


def _update_by_copy(by_name):
    pairs = list(zip(_values(by_name, "update"), _values(by_name, "copy")))
    return _interval([x / y for x, y in pairs]) if pairs else None


def _share_of_products(by_name):
    """Returns the rate of a step's products as a fraction of the rate of products alone. A step's
    products include attention, counted over the pairs that the mask leaves."""
    ours, products = by_name.get(OURS, {}), _values(by_name, "product")
    if not (ours.get("flops") and ours.get("rounds_ms") and products):
        return None
    flops = statistics.median(products) * 1e-3  # per millisecond
    return _interval([ours["flops"] / ms / flops for ms in ours["rounds_ms"]])


def _at_least(gate, what, bound, figure):
    return Gate(gate, what, bound, False, figure)


def _at_most(gate, what, bound, figure):
    return Gate(gate, what, bound, True, figure)


def _steps(gate, bounds):
    return [_at_least(gate, f"{peer} / ours", bound, _ratio(peer, OURS)) for peer, bound in bounds]


_ALL = [
    _at_most("G1", "host time per step, µs", 15, _host),
    _at_most("G8", "peak memory, ours / eager", 0.8, _quotient(OURS, EAGER, "peak_memory")),
    _at_most("G8", "peak memory, ours / compile", 1.0, _quotient(OURS, COMPILE, "peak_memory")),
    _at_most("G11", "strategy on / off", 1.01, _ratio(OURS, WITHOUT_STRATEGY)),
]
_MLP = _steps("G2", [(EAGER, 5), (AUTOTUNE, 1.2), (JAX, 1.2)]) + _ALL
_CNN = _steps("G3", [(EAGER, 4), (COMPILE, 1.1), (JAX, 1.1)]) + _ALL
_TRANSFORMER = _steps("G4", [(EAGER, 3), (COMPILE, 1.1)]) + _ALL
_GPT2 = _steps("G5", [(EAGER, 1.2), (COMPILE, 0.95)]) + _ALL + [
    _at_least("G5", "rate of its products / of products alone", 0.4, _share_of_products)]
# Gates by model, batch and precision. The first case is also the first one that compiles anything.
GATES = {
    ("mlp", 64, "tf32"): _MLP + [
        _at_least("G9", "cold first step, compile / ours", 4, _first_step),
        _at_least("G9", "first step, compile cold / ours warm", 10, _warm_first_step)],
    ("mlp", 256, "tf32"): _MLP,
    ("cnn", 64, "tf32"): _CNN,
    ("transformer", 8, "tf32"): _TRANSFORMER,
    ("gpt2", 8, "bf16"): _GPT2,
}
# Gates that do not belong to a model.
FIGURES = [
    _at_least("G6", "bytes per second, Adam / copy", 0.8, _update_by_copy),
    _at_most("G7", "kernels of a dense layer, forward and backward", 3, _alone("layer")),
    _at_most("G10", "capture of 1,000 kernels, ms", 50, _alone("capture")),
]


def _verdict(gate, figure):
    _, low, high = figure
    if gate.at_most:
        return "met" if high <= gate.bound else "missed" if low > gate.bound else "undecided"
    return "met" if low >= gate.bound else "missed" if high < gate.bound else "undecided"


def _lines_of(lines, case):
    return {line["name"]: line for line in lines if "median_ms" in line
            and (line["model"], line["batch"], line["precision"]) == case}


def _one_verdict(gate, case, by_name):
    one = {"gate": gate.gate, "case": case + gate.what,
           "bound": ("≤ " if gate.at_most else "≥ ") + f"{gate.bound:g}"}
    figure = gate.figure(by_name)
    if figure is None:
        return dict(one, verdict="not measured")
    return dict(one, median=figure[0], low=figure[1], high=figure[2],
                verdict=_verdict(gate, figure))


def verdicts(lines):
    """Returns one object per gate and case, in the order of the gates."""
    figures = {line["figure"]: line for line in lines if "figure" in line}
    made = [_one_verdict(gate, f"{case[0]} {case[1]}, ", {**_lines_of(lines, case), **figures})
            for case, gates in GATES.items() for gate in gates]
    made += [_one_verdict(gate, "", figures) for gate in FIGURES]
    return sorted(made, key=lambda one: int(one["gate"][1:]))


def loss_rows(stage, lines, case):
    """Returns a FAILED row for each program whose first losses differ from ours although it starts
    from equal weights."""
    from processes import FAILED, Row
    by_name = _lines_of(lines, case)
    ours = by_name.get(OURS) if case[0] in EQUAL_WEIGHTS else None
    rows = []
    for name, line in by_name.items() if ours else ():
        worst = max((abs(a - b) / abs(b) for a, b in zip(line["losses"], ours["losses"])),
                    default=0)
        if worst > LOSS_TOLERANCE:
            rows.append(Row(f"{stage}: {name}", FAILED,
                            f"losses differ from ours; expected a relative difference of at most "
                            f"{LOSS_TOLERANCE:g}, got {worst:.2g}"))
    return rows


def table(rows, verdicts_):
    """Returns the table of all stages, followed by all gates."""
    lines = [("stage", "result", "what", "s")]
    lines += [(row.stage, row.result, row.what, f"{row.seconds:.0f}") for row in rows]
    for one in verdicts_:
        what = one["case"]
        if "median" in one:
            what += f": {one['median']:.3g} ({one['low']:.3g} to {one['high']:.3g})"
        if one["bound"]:
            what += f", expected {one['bound']}"
        lines.append((f"gate {one['gate']}", one["verdict"], what, ""))
    return aligned(lines)


def aligned(lines):
    """Returns the text of lines of cells, aligned in columns."""
    widths = [max(map(len, column)) for column in zip(*lines)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip()
                     for line in lines)
