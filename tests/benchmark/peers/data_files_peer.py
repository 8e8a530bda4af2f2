# SPDX-License-Identifier: Apache-2.0
"""Writes the files of `mirrorflow bench data` into a folder: images/CLASS/*.jpg, table.csv and
examples.tfrecord."""

import os
import pathlib
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import pandas
import tensorflow as tf
from PIL import Image

import peer

IMAGES, CLASSES, HEIGHT, WIDTH = 1000, 50, 256, 320
TABLE_ROWS, TABLE_COLUMNS = 50_000, 20
EXAMPLES, FEATURES = 20_000, 100


def write_images(folder, random):
    """Writes smooth pictures whose files are as large as photographs."""
    for i in range(IMAGES):
        small = random.integers(0, 256, (HEIGHT // 8, WIDTH // 8, 3), np.uint8)
        large = np.asarray(Image.fromarray(small).resize((WIDTH, HEIGHT), Image.BICUBIC), np.int16)
        noisy = np.clip(large + random.integers(-8, 9, large.shape), 0, 255).astype(np.uint8)
        path = folder / f"{i * CLASSES // IMAGES:02d}" / f"{i:04d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(noisy).save(path, quality=90)


def write_table(path, random):
    columns = {f"x{c}": random.standard_normal(TABLE_ROWS, np.float32) for c in range(TABLE_COLUMNS)}
    columns["label"] = random.integers(0, 10, TABLE_ROWS)
    pandas.DataFrame(columns).to_csv(path, index=False)


def write_examples(path, random):
    with tf.io.TFRecordWriter(str(path)) as writer:
        for _ in range(EXAMPLES):
            x = random.standard_normal(FEATURES, np.float32)
            label = int(random.integers(0, 10))
            writer.write(tf.train.Example(features=tf.train.Features(feature={
                "x": tf.train.Feature(float_list=tf.train.FloatList(value=x)),
                "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
            })).SerializeToString())


def main():
    folder, random = pathlib.Path(sys.argv[3]), np.random.default_rng(1)
    write_images(folder / "images", random)
    write_table(folder / "table.csv", random)
    write_examples(folder / "examples.tfrecord", random)
    peer.say("version", tf.__version__)
    peer.say("ready")
    sys.stdin.read()


if __name__ == "__main__":
    main()
