# SPDX-License-Identifier: Apache-2.0
"""PyTorch's DataLoader with one worker process per thread. A table in memory has no worker process
and is indexed by whole batches. Pillow decodes pictures, pandas reads tables, and TensorFlow's
protocol buffers parse records."""

import glob
import itertools
import os
import random
import struct

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import peer
import numpy as np
import pandas
import torch
from PIL import Image
from torch.utils import data

from data_peer import BATCH, CROP, FOLDER, IMAGE_BATCH, TASK, THREADS, passes_of, steps_of


class Images(data.Dataset):

    def __init__(self):
        self.paths = sorted(glob.glob(f"{FOLDER}/images/*/*.jpg"))
        names = sorted({path.split("/")[-2] for path in self.paths})
        self.labels = [names.index(path.split("/")[-2]) for path in self.paths]

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, i):
        image = np.asarray(Image.open(self.paths[i]).convert("RGB"))
        top = random.randint(0, image.shape[0] - CROP)
        left = random.randint(0, image.shape[1] - CROP)
        image = image[top:top + CROP, left:left + CROP]
        if random.random() < 0.5:
            image = image[:, ::-1]
        return torch.from_numpy(image.astype(np.float32) / 255), float(self.labels[i])


class Records(data.IterableDataset):
    """A worker parses every THREADS-th batch; DataLoader puts them in order."""

    def __iter__(self):
        from tensorflow.core.example import example_pb2
        info = data.get_worker_info()
        part, parts = (info.id, info.num_workers) if info else (0, 1)
        with open(f"{FOLDER}/examples.tfrecord", "rb") as file:
            for i in itertools.count():
                header = file.read(12)
                if not header:
                    return
                size = struct.unpack("<Q", header[:8])[0]
                if i // BATCH % parts != part:
                    file.seek(size + 4, os.SEEK_CUR)
                    continue
                example = example_pb2.Example.FromString(file.read(size))
                file.seek(4, os.SEEK_CUR)
                feature = example.features.feature
                yield (np.array(feature["x"].float_list.value, np.float32),
                       feature["label"].int64_list.value[0])


def table():
    frame = pandas.read_csv(f"{FOLDER}/table.csv", dtype=np.float32)
    x = torch.from_numpy(frame.iloc[:, :-1].to_numpy().copy())
    label = torch.from_numpy(frame.iloc[:, -1].to_numpy(np.int32))
    dataset = data.TensorDataset(x, label)
    batches = data.BatchSampler(data.SequentialSampler(dataset), BATCH, drop_last=False)
    return data.DataLoader(dataset, sampler=batches, batch_size=None)


def main():
    torch.set_num_threads(1)
    if TASK == "csv":
        run = passes_of(table() for _ in itertools.count())
    else:
        dataset, batch = (Images(), IMAGE_BATCH) if TASK == "jpeg" else (Records(), BATCH)
        loader = data.DataLoader(dataset, batch_size=batch, num_workers=THREADS,
                                 persistent_workers=True)
        run = steps_of(loader for _ in itertools.count())
    peer.talk(torch.__version__, run)


if __name__ == "__main__":
    main()
