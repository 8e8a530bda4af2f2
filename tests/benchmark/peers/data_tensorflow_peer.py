# SPDX-License-Identifier: Apache-2.0
"""tf.data, with stages on whole batches where possible."""

import glob
import itertools
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import peer
import numpy as np
import tensorflow as tf

from data_peer import BATCH, CROP, FOLDER, IMAGE_BATCH, TASK, THREADS, passes_of, steps_of


def images():
    paths = sorted(glob.glob(f"{FOLDER}/images/*/*.jpg"))
    names = sorted({path.split("/")[-2] for path in paths})
    labels = np.array([names.index(path.split("/")[-2]) for path in paths], np.int32)

    def load(path, label):
        image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
        image = tf.image.random_flip_left_right(tf.image.random_crop(image, (CROP, CROP, 3)))
        return tf.cast(image, tf.float32) / 255, label

    source = tf.data.Dataset.from_tensor_slices((paths, labels))
    return source.map(load, num_parallel_calls=THREADS).batch(IMAGE_BATCH)


def table():
    path = f"{FOLDER}/table.csv"
    with open(path) as file:
        columns = len(file.readline().split(","))
    defaults = [[0.0]] * (columns - 1) + [[0]]

    def parse(lines):
        fields = tf.io.decode_csv(lines, defaults)
        return tf.stack(fields[:-1], 1), fields[-1]

    lines = tf.data.TextLineDataset(path).skip(1).batch(BATCH)
    return lines.map(parse, num_parallel_calls=THREADS)


def examples():
    features = {"x": tf.io.FixedLenFeature([100], tf.float32),
                "label": tf.io.FixedLenFeature([], tf.int64)}

    def parse(records):
        row = tf.io.parse_example(records, features)
        return row["x"], row["label"]

    records = tf.data.TFRecordDataset(f"{FOLDER}/examples.tfrecord").batch(BATCH)
    return records.map(parse, num_parallel_calls=THREADS)


def main():
    dataset = {"jpeg": images, "csv": table, "tfrecord": examples}[TASK]().prefetch(1)
    options = tf.data.Options()
    options.threading.private_threadpool_size = THREADS
    options.threading.max_intra_op_parallelism = 1
    dataset = dataset.with_options(options)
    passes = (dataset.as_numpy_iterator() for _ in itertools.count())
    peer.talk(tf.__version__, (passes_of if TASK == "csv" else steps_of)(passes))


if __name__ == "__main__":
    main()
