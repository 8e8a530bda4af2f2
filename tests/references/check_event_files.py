#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that TensorBoard reads from an event file what SummaryWriter wrote.

Usage: check_event_files.py EXAMPLE_RUN

EXAMPLE_RUN is the program tests/train/summary/example_run. Reads its file with TensorBoard's
EventAccumulator, and the hyperparameters as the plugin `hparams` does. Run it by hand, because it
needs tensorboard and numpy from PyPI. Without tensorboard, checks nothing and says so.
"""
import glob
import io
import os
import subprocess
import sys
import tempfile
import zlib

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
try:
    from tensorboard.backend.event_processing import event_accumulator
    from tensorboard.compat.proto import graph_pb2
    from tensorboard.plugins.hparams import metadata as hparams_metadata
    from tensorboard.plugins.histogram import summary_v2
    from tensorboard.util import tensor_util
    from tensorboard import data_compat
    from tensorboard.compat.proto import summary_pb2
except ImportError:
    print("SKIPPED: tensorboard is not installed; run pip install tensorboard")
    sys.exit(0)
import numpy as np

STEPS = 100
FIRST_SECOND = 1_800_000_000


def check_scalars(run):
    expected = {
        "loss/train": {n: 2 / (n + 1) for n in range(STEPS)},
        "learning_rate": {n: 0.1 * (1 - 0.01 * n) for n in range(STEPS)},
        "loss/validation": {n: 2.5 / (n + 1) for n in range(9, STEPS, 10)},
        "accuracy": {n: 1 - 1 / (n + 1) for n in range(9, STEPS, 10)},
        "best_accuracy": {STEPS: 0.99},
    }
    assert set(run.Tags()["scalars"]) == set(expected), run.Tags()["scalars"]
    for tag, values in expected.items():
        events = run.Scalars(tag)
        assert [e.step for e in events] == list(values), tag
        assert [e.value for e in events] == [float(np.float32(v)) for v in values.values()], tag
        if tag != "best_accuracy":
            assert [e.wall_time for e in events] == [FIRST_SECOND + n for n in values], tag


def check_histograms(run):
    events = run.Histograms("weights")
    assert [e.step for e in events] == list(range(9, STEPS, 10))
    for event in events:
        scale, histogram = event.step + 1, event.histogram_value
        values = np.array([i % 10 * scale for i in range(1000)], np.float32)
        assert (histogram.min, histogram.max, histogram.num) == (0, 9 * scale, 1000)
        assert np.isclose(histogram.sum, values.sum())
        assert np.isclose(histogram.sum_squares, (values.astype(float)**2).sum())
        # The dashboards show the converted form, which must equal that of tf.summary.histogram.
        value = summary_pb2.Summary.Value(tag="weights")
        value.histo.min, value.histo.max = histogram.min, histogram.max
        value.histo.bucket_limit.extend(histogram.bucket_limit)
        value.histo.bucket.extend(histogram.bucket)
        shown = tensor_util.make_ndarray(data_compat.migrate_value(value).tensor)
        expected = tensor_util.make_ndarray(
            summary_v2.histogram_pb("weights", values, buckets=10).value[0].tensor)
        assert np.allclose(shown, expected, rtol=1e-6), (shown, expected)


def decoded(png):
    """Returns the pixels of an 8-bit RGB image whose rows use no filter or the usual ones."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    stream, data, size = io.BytesIO(png[8:]), b"", None
    while True:
        length = int.from_bytes(stream.read(4), "big")
        kind, body = stream.read(4), stream.read(length)
        assert int.from_bytes(stream.read(4), "big") == zlib.crc32(kind + body)
        if kind == b"IHDR":
            size = int.from_bytes(body[:4], "big"), int.from_bytes(body[4:8], "big")
            assert body[8:10] == b"\x08\x02"
        elif kind == b"IDAT":
            data += body
        elif kind == b"IEND":
            break
    width, height = size
    rows, above, data = [], [0] * (3 * width), zlib.decompress(data)
    for y in range(height):
        line = data[y * (3 * width + 1):(y + 1) * (3 * width + 1)]
        row = []
        for i, byte in enumerate(line[1:]):
            left, up = row[i - 3] if i >= 3 else 0, above[i]
            corner = above[i - 3] if i >= 3 else 0
            paeth = min((left, up, corner), key=lambda v: abs(left + up - corner - v))
            row.append((byte + (0, left, up, (left + up) // 2, paeth)[line[0]]) % 256)
        rows.append(row)
        above = row
    return np.array(rows).reshape(height, width, 3)


def check_image(run):
    event, = run.Images("picture")
    assert (event.step, event.height, event.width) == (7, 4, 6)
    expected = np.zeros((4, 6, 3))
    expected[:3, :, 0] = 255
    expected[3, :, 1] = 255
    assert (decoded(event.encoded_image_string) == expected).all()


def check_text(run):
    assert run.summary_metadata["notes"].plugin_data.plugin_name == "text"
    event, = run.Tensors("notes")
    assert event.step == 3
    assert tensor_util.make_ndarray(event.tensor_proto).item() == b"a **bold** word and <tags>"


def check_graph(run):
    graph = run.Graph()
    assert isinstance(graph, graph_pb2.GraphDef)
    assert [(n.name, n.op, list(n.input)) for n in graph.node] == [
        ("in", "Placeholder", []), ("minus", "Neg", ["in"])], graph


def check_hparams(run):
    content = run.PluginTagToContent("hparams")
    experiment = hparams_metadata.parse_experiment_plugin_data(
        content[hparams_metadata.EXPERIMENT_TAG])
    assert [h.name for h in experiment.hparam_infos] == ["adam", "batch", "loss", "lr"]
    assert [m.name.tag for m in experiment.metric_infos] == ["best_accuracy"]
    start = hparams_metadata.parse_session_start_info_plugin_data(
        content[hparams_metadata.SESSION_START_INFO_TAG])
    assert start.hparams["adam"].bool_value is True
    assert start.hparams["batch"].number_value == 64
    assert start.hparams["lr"].number_value == 0.1
    assert start.hparams["loss"].string_value == "mse"
    end = hparams_metadata.parse_session_end_info_plugin_data(
        content[hparams_metadata.SESSION_END_INFO_TAG])
    assert end.status == 1 and end.end_time_secs >= start.start_time_secs > 0


def main(example_run):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([os.path.abspath(example_run), folder], check=True)
        file, = glob.glob(folder + "/events.out.tfevents.*.v2")
        run = event_accumulator.EventAccumulator(
            folder, size_guidance={event_accumulator.SCALARS: 0, event_accumulator.HISTOGRAMS: 0})
        run.Reload()
        assert run.file_version == 2.0, run.file_version
        for check in (check_scalars, check_histograms, check_image, check_text, check_graph,
                      check_hparams):
            check(run)
            print(f"{check.__name__}: ok")
        print(f"TensorBoard reads all values of {os.path.getsize(file)} bytes")


if __name__ == "__main__":
    main(*sys.argv[1:])
