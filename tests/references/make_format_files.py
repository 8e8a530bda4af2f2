#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the files of tests/references/formats: a TFRecord with TensorFlow, CSV with pandas, PNG and
JPEG with Pillow. frame.npz has the columns of frame.csv, and images.npz has the pixels that
TensorFlow's decoders return. Needs pandas and pillow.
"""
import io
import os
import pathlib

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import numpy as np
import pandas
import PIL.Image
import tensorflow as tf

HERE = pathlib.Path(__file__).resolve().parent / "formats"


def bytes_feature(*values):
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))


def float_feature(*values):
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))


def int64_feature(*values):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def examples():
    """Yields the serialized examples that example_test.cc expects."""
    for i in range(5):
        feature = {"image": float_feature(*(i + 0.25 * k for k in range(6))),
                   "label": int64_feature(-i if i % 2 else i << 40),
                   "raw": bytes_feature(bytes([i, 255, 0, 7])),
                   "tags": int64_feature(*range(i)),
                   "scores": float_feature(*(0.5 * k for k in range(i % 3))),
                   "name": bytes_feature(f"example {i}".encode(), b"second")}
        if i == 3:
            del feature["tags"], feature["label"]
        message = tf.train.Example(features=tf.train.Features(feature=feature))
        yield message.SerializeToString(deterministic=True)


def write_records():
    for name, compression in [("examples", ""), ("examples_gzip", "GZIP"),
                              ("examples_zlib", "ZLIB")]:
        with tf.io.TFRecordWriter(str(HERE / f"{name}.tfrecord"), compression) as writer:
            for example in examples():
                writer.write(example)


def write_csv():
    rng = np.random.default_rng(1)
    rows = 40
    frame = pandas.DataFrame({
        "id": np.arange(rows) - 7,
        "single": rng.standard_normal(rows).astype(np.float32),
        "double": rng.standard_normal(rows) * 10.0 ** rng.integers(-12, 12, rows),
        "gaps": np.where(np.arange(rows) % 4 == 1, np.nan, rng.standard_normal(rows)),
        "flag": np.arange(rows) % 3 == 0,
        "species": np.array(["setosa", 'say "so"', "a,b", "two\nlines"])[np.arange(rows) % 4],
    })
    frame.to_csv(HERE / "frame.csv", index=False)
    np.savez(HERE / "frame.npz", **{name: frame[name].to_numpy() for name in frame
                                    if name != "species"})


def picture(height, width, channels):
    """Returns a smooth picture with edges, so the decoders' filters matter."""
    y, x, c = np.meshgrid(np.arange(height), np.arange(width), np.arange(channels), indexing="ij")
    values = 127 + 90 * np.sin(x / 5 + c) * np.cos(y / (4 + c)) + 30 * ((x // 8 + y // 8) % 2)
    pixels = values.clip(0, 255).astype(np.uint8)
    return pixels[:, :, 0] if channels == 1 else pixels


def encode(image, kind, **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def images():
    """Yields (name, bytes)."""
    rgb, grey = PIL.Image.fromarray(picture(37, 50, 3)), PIL.Image.fromarray(picture(19, 23, 1))
    yield "rgb.png", encode(rgb, "PNG", optimize=True)
    yield "grey.png", encode(grey, "PNG")
    yield "rgba.png", encode(PIL.Image.fromarray(picture(9, 12, 4)), "PNG")
    yield "grey_alpha.png", encode(PIL.Image.fromarray(picture(9, 12, 4)).convert("LA"), "PNG")
    yield "palette.png", encode(rgb.convert("P", palette=PIL.Image.Palette.ADAPTIVE, colors=8), "PNG")
    yield "bits.png", encode(grey.convert("1"), "PNG")
    deep = PIL.Image.fromarray(picture(9, 12, 1).astype(np.uint16) * 257 - 100)
    yield "deep.png", encode(deep, "PNG")
    yield "rgb_420.jpg", encode(rgb, "JPEG", quality=85, subsampling="4:2:0")
    yield "rgb_422.jpg", encode(rgb, "JPEG", quality=85, subsampling="4:2:2")
    yield "rgb_444.jpg", encode(rgb, "JPEG", quality=95, subsampling="4:4:4")
    yield "progressive.jpg", encode(rgb, "JPEG", quality=85, progressive=True, restart_marker_rows=1)
    yield "grey.jpg", encode(grey, "JPEG", quality=90)
    yield "cmyk.jpg", encode(rgb.convert("CMYK"), "JPEG", quality=90)


def decode(name, contents, **options):
    if name.endswith(".png"):
        return tf.io.decode_png(contents, **options).numpy()
    return tf.io.decode_jpeg(contents, dct_method="INTEGER_ACCURATE", fancy_upscaling=True,
                             **options).numpy()


def write_images():
    values = {}
    for name, contents in images():
        (HERE / name).write_bytes(contents)
        values[f"{name} 0"] = decode(name, contents)
        if name not in ("bits.png", "palette.png"):
            values[f"{name} 3"] = decode(name, contents, channels=3)
        if name.endswith(".jpg") and name != "cmyk.jpg":
            values[f"{name} 1"] = decode(name, contents, channels=1)
        if name in ("rgb_420.jpg", "progressive.jpg", "grey.jpg"):
            for ratio in (2, 4, 8):
                values[f"{name} 0 {ratio}"] = decode(name, contents, ratio=ratio)
        if name.endswith(".png"):  # TensorFlow's grey weights green by 0.114
            values[f"{name} 1"] = np.asarray(PIL.Image.open(io.BytesIO(contents)).convert(
                "RGB").convert("L"))[:, :, None]
    del values["deep.png 1"]  # Pillow clips 16 bits
    np.savez_compressed(HERE / "images.npz", **values)


if __name__ == "__main__":
    HERE.mkdir(exist_ok=True)
    write_records()
    write_csv()
    write_images()
