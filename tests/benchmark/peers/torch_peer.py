# SPDX-License-Identifier: Apache-2.0
"""PyTorch: eager, channels last, fused SGD, one thread a process; DistributedDataParallel over gloo
with the gradients as views of its buckets and a static graph. Compiled models were slower."""

import os
import sys

os.environ["OMP_NUM_THREADS"] = "1"

import peer  # before the others: it says on which cores

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn


class Model(nn.Module):
    """The layers of the case."""

    def __init__(self, case):
        super().__init__()
        self.steps = nn.ModuleList()
        for kernel, bias in case.layers:
            kernel, bias = torch.from_numpy(kernel), torch.from_numpy(bias)
            if kernel.ndim == 4:
                layer = nn.Conv2d(kernel.shape[2], kernel.shape[3], 3)
                weight = kernel.permute(3, 2, 0, 1)
            else:
                layer = nn.Linear(*kernel.shape)
                weight = kernel.T
            with torch.no_grad():
                layer.weight.copy_(weight)
                layer.bias.copy_(bias)
            self.steps.append(layer)

    def forward(self, x):
        for i, layer in enumerate(self.steps):
            if isinstance(layer, nn.Conv2d):
                x = nn.functional.max_pool2d(nn.functional.relu(layer(x)), 2)
                continue
            if x.ndim == 4:  # channels last, as the weights have it
                x = x.permute(0, 2, 3, 1).reshape(len(x), -1)
            x = layer(x)
            if i + 1 < len(self.steps):
                x = nn.functional.relu(x)
        return x


def train(rank, case):
    torch.set_num_threads(1)
    if case.replicas > 1:
        os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[rank]})
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=os.environ["PEER_PORT"])
        dist.init_process_group("gloo", rank=rank, world_size=case.replicas)
    model = Model(case).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=peer.LEARNING_RATE, fused=True)
    if case.replicas > 1:
        model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True,
                                                    static_graph=True)
    inputs, labels = case.rows_of(rank)
    inputs, labels = torch.from_numpy(inputs.copy()), torch.from_numpy(labels.copy()).long()
    if inputs.ndim == 4:
        inputs = inputs.permute(0, 3, 1, 2)  # a view: channels last in memory

    def run(steps):
        loss = torch.zeros(())
        for _ in range(steps):
            optimizer.zero_grad(set_to_none=case.replicas == 1)
            loss = nn.functional.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
        loss = loss.detach()
        if case.replicas > 1 and steps == 1:
            dist.all_reduce(loss)
            loss /= case.replicas
        return loss

    def agree(steps):
        if case.replicas == 1:
            return steps
        count = torch.tensor(steps)
        dist.broadcast(count, 0)
        return int(count)

    if rank == 0:
        peer.talk(torch.__version__, run, agree)
    else:
        while steps := agree(0):
            run(steps)
    if case.replicas > 1:
        dist.destroy_process_group()


def main():
    case = peer.case_of_arguments()
    if case.replicas == 1:
        return train(0, case)
    os.environ.setdefault("PEER_PORT", str(20000 + os.getpid() % 20000))
    others = [mp.get_context("fork").Process(target=train, args=(rank, case), daemon=True)
              for rank in range(1, case.replicas)]
    for other in others:
        other.start()
    train(0, case)
    for other in others:
        other.join(10)


if __name__ == "__main__":
    sys.exit(main())
