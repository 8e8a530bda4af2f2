# SPDX-License-Identifier: Apache-2.0
"""PyTorch: eager, channels last, fused SGD, one thread per process; DistributedDataParallel over
gloo, one replica per worker, with the gradients as views of its buckets and a static graph. Compiled
models are slower."""

import fcntl
import os
import socket
import struct
import sys

os.environ["OMP_NUM_THREADS"] = "1"

import peer  # before other libraries, because it sets the cores

import torch
import torch.distributed as dist
from torch import nn


def linear(kernel, bias):
    layer = nn.Linear(*kernel.shape)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(kernel.T))
        layer.bias.copy_(torch.from_numpy(bias))
    return layer


def convolution(kernel, bias=None, **options):
    layer = nn.Conv2d(kernel.shape[2], kernel.shape[3], kernel.shape[0], bias=bias is not None,
                      **options)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(kernel.transpose(3, 2, 0, 1)))
        if bias is not None:
            layer.bias.copy_(torch.from_numpy(bias))
    return layer


class FeedForward(nn.Module):
    """mlp, cnn and big."""

    def __init__(self, case):
        super().__init__()
        self.steps = nn.ModuleList(
            (convolution if kernel.ndim == 4 else linear)(kernel, bias)
            for kernel, bias in peer.pairs(case.weights))

    def forward(self, x):
        for i, layer in enumerate(self.steps):
            if isinstance(layer, nn.Conv2d):
                x = nn.functional.max_pool2d(nn.functional.relu(layer(x)), 2)
                continue
            if x.ndim == 4:  # channels last, as in the weights
                x = x.permute(0, 2, 3, 1).reshape(len(x), -1)
            x = layer(x)
            if i + 1 < len(self.steps):
                x = nn.functional.relu(x)
        return x


class Lstm(nn.Module):
    """PyTorch orders the gates as Mirrorflow does, but has two biases, one of which stays zero."""

    def __init__(self, case):
        super().__init__()
        kernel, bias, *last = case.weights
        width = bias.size // 4
        self.lstm = nn.LSTM(len(kernel) - width, width, batch_first=True)
        self.lstm.bias_hh_l0.requires_grad_(False)
        with torch.no_grad():
            self.lstm.weight_ih_l0.copy_(torch.from_numpy(kernel[:-width].T))
            self.lstm.weight_hh_l0.copy_(torch.from_numpy(kernel[-width:].T))
            self.lstm.bias_ih_l0.copy_(torch.from_numpy(bias))
            self.lstm.bias_hh_l0.zero_()
        self.last = linear(*last)

    def forward(self, x):
        return self.last(self.lstm(x)[0][:, -1])


def same_padding(window, strides):
    """Returns the padding "SAME" before and after images whose size is a multiple of the stride."""
    total = max(window - strides, 0)
    return total // 2, total - total // 2


def normalised_convolution(weights, moving):
    """Returns a function that takes the weights of a convolution and its normalisation from the
    iterators."""

    def conv_norm(strides):
        kernel = next(weights)
        norm = nn.BatchNorm2d(kernel.shape[3], peer.EPSILON, peer.MOVING_FACTOR)
        with torch.no_grad():
            norm.weight.copy_(torch.from_numpy(next(weights)))
            norm.bias.copy_(torch.from_numpy(next(weights)))
            norm.running_mean.copy_(torch.from_numpy(next(moving)))
            norm.running_var.copy_(torch.from_numpy(next(moving)))
        before, after = same_padding(kernel.shape[0], strides)
        if before == after:
            return nn.Sequential(convolution(kernel, stride=strides, padding=before), norm)
        return nn.Sequential(nn.ZeroPad2d((before, after, before, after)),
                             convolution(kernel, stride=strides), norm)

    return conv_norm


class ResNet(nn.Module):

    def __init__(self, case):
        super().__init__()
        weights = iter(case.weights)
        conv_norm = normalised_convolution(weights, iter(case.moving))
        self.first = conv_norm(1)
        self.blocks = nn.ModuleList(
            nn.Sequential(conv_norm(strides), nn.ReLU(inplace=True), conv_norm(1))
            for strides in peer.RESNET_STRIDES)
        self.last = linear(next(weights), next(weights))

    def forward(self, x):
        x = nn.functional.relu(self.first(x))
        for strides, block in zip(peer.RESNET_STRIDES, self.blocks):
            y = block(x)
            if strides > 1:
                added = (y.shape[1] - x.shape[1]) // 2
                x = nn.functional.pad(x[:, :, ::strides, ::strides], (0, 0, 0, 0, added, added))
            x = nn.functional.relu(y + x)
        return self.last(x.mean((2, 3)))


class ResNet50(nn.Module):

    def __init__(self, case):
        super().__init__()
        weights = iter(case.weights)
        conv_norm = normalised_convolution(weights, iter(case.moving))
        # All values are at least 0 before max-pooling, so it can pad with zeros.
        self.first = nn.Sequential(conv_norm(2), nn.ReLU(inplace=True), nn.ZeroPad2d((0, 1, 0, 1)),
                                   nn.MaxPool2d(3, 2))
        self.blocks = nn.ModuleList()
        self.shortcuts = nn.ModuleList()
        for strides, projects in peer.RESNET50_BLOCKS:
            self.blocks.append(nn.Sequential(conv_norm(1), nn.ReLU(inplace=True),
                                             conv_norm(strides), nn.ReLU(inplace=True),
                                             conv_norm(1)))
            self.shortcuts.append(conv_norm(strides) if projects else nn.Identity())
        self.last = linear(next(weights), next(weights))

    def forward(self, x):
        x = self.first(x)
        for block, shortcut in zip(self.blocks, self.shortcuts):
            x = nn.functional.relu(block(x) + shortcut(x))
        return self.last(x.mean((2, 3)))


def normalisation(gamma, beta):
    layer = nn.LayerNorm(len(gamma), peer.EPSILON)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(gamma))
        layer.bias.copy_(torch.from_numpy(beta))
    return layer


class Block(nn.Module):

    def __init__(self, weights, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = normalisation(next(weights), next(weights))
        self.query, self.key, self.value, self.output = (
            linear(next(weights), next(weights)) for _ in range(4))
        self.norm2 = normalisation(next(weights), next(weights))
        self.up, self.down = (linear(next(weights), next(weights)) for _ in range(2))

    def forward(self, x):
        y = self.norm1(x)
        q, k, v = (layer(y).unflatten(2, (self.heads, -1)).transpose(1, 2)
                   for layer in (self.query, self.key, self.value))
        seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.output(seen.transpose(1, 2).flatten(2))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class Transformer(nn.Module):

    def __init__(self, case):
        super().__init__()
        weights = iter(case.weights)
        self.embeddings, self.places = (nn.Embedding.from_pretrained(
            torch.from_numpy(next(weights).copy()), freeze=False) for _ in range(2))
        blocks, heads = peer.TRANSFORMERS[case.model]
        self.blocks = nn.Sequential(*(Block(weights, heads) for _ in range(blocks)))
        self.norm = normalisation(next(weights), next(weights))

    def forward(self, tokens):
        x = self.blocks(self.embeddings(tokens) + self.places.weight)
        return nn.functional.linear(self.norm(x).flatten(0, 1), self.embeddings.weight)


MODELS = {"lstm": Lstm, "resnet": ResNet, "resnet50": ResNet50, "resnet50_64": ResNet50,
          "transformer": Transformer, "gpt2": Transformer}


def chain(case):
    x = torch.from_numpy(case.inputs)

    def run(steps):
        y = x
        with torch.inference_mode():
            for _ in range(steps):
                y = x
                for _ in range(peer.CHAIN_LENGTH):
                    y = torch.sin(y)
        return y

    torch.set_num_threads(1)
    peer.talk(torch.__version__, run)


def network_device(address):
    """Returns the name of the network device with this address."""
    SIOCGIFADDR = 0x8915  # netdevice(7)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        for _, name in socket.if_nameindex():
            try:
                request = fcntl.ioctl(s, SIOCGIFADDR, struct.pack("256s", name.encode()))
            except OSError:
                continue  # a device without an address
            if socket.inet_ntoa(request[20:24]) == address:
                return name
    raise SystemExit(f"torch: no network device has the address {address}")


def train(case):
    torch.set_num_threads(1)
    if case.replicas > 1:
        (first, port), (own, _) = (peer.ADDRESSES[w].split(":") for w in (0, peer.WORKER))
        os.environ.update(MASTER_ADDR=first, MASTER_PORT=port,
                          GLOO_SOCKET_IFNAME=network_device(own))
        dist.init_process_group("gloo", rank=peer.WORKER, world_size=peer.WORKERS)
    model = MODELS.get(case.model, FeedForward)(case).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=peer.LEARNING_RATE, fused=True)
    if case.replicas > 1:
        model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True,
                                                    static_graph=True)
    inputs, labels = case.rows_of(peer.WORKER)
    inputs, labels = torch.from_numpy(inputs.copy()), torch.from_numpy(labels.copy()).long().flatten()
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

    peer.talk(torch.__version__, run, agree)


def main():
    case = peer.case_of_arguments()
    if case.model == "chain":
        return chain(case)
    if case.moving and case.replicas > 1:
        raise SystemExit("torch: batch normalisation over several processes needs GPUs")
    if case.replicas != peer.WORKERS:
        raise SystemExit(f"torch: expected one worker per replica, got {peer.WORKERS}")
    train(case)


if __name__ == "__main__":
    sys.exit(main())
