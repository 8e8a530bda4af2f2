# SPDX-License-Identifier: Apache-2.0
"""PyTorch on a GPU: eager, compiled, compiled with max-autotune (which includes CUDA graphs), and
eager captured by hand as one CUDA graph. Channels last, fused optimizers; bf16 is autocast over
float weights."""

import contextlib

import torch
from torch import nn
from torch.nn import functional as F

import gpu_peer


class FeedForward(nn.Module):
    """mlp and cnn, with the weights of the case."""

    def __init__(self, case):
        super().__init__()
        self.steps = nn.ModuleList(self.layer(*pair) for pair in case.pairs())

    @staticmethod
    def layer(kernel, bias):
        if kernel.ndim == 4:
            layer = nn.Conv2d(kernel.shape[2], kernel.shape[3], kernel.shape[0])
            kernel = kernel.transpose(3, 2, 0, 1)
        else:
            layer = nn.Linear(*kernel.shape)
            kernel = kernel.T
        with torch.no_grad():
            layer.weight.copy_(torch.from_numpy(kernel.copy()))
            layer.bias.copy_(torch.from_numpy(bias))
        return layer

    def forward(self, x):
        for i, layer in enumerate(self.steps):
            if isinstance(layer, nn.Conv2d):
                x = F.max_pool2d(F.relu(layer(x)), 2)
                continue
            if x.ndim == 4:  # channels last, as in the weights
                x = x.permute(0, 2, 3, 1).reshape(len(x), -1)
            x = layer(x)
            if i + 1 < len(self.steps):
                x = F.relu(x)
        return x


class Bottleneck(nn.Module):

    def __init__(self, channels, width, stride):
        super().__init__()
        out = 4 * width

        def conv_norm(a, b, size, stride=1):
            return nn.Sequential(nn.Conv2d(a, b, size, stride, size // 2, bias=False),
                                 nn.BatchNorm2d(b))

        self.body = nn.Sequential(conv_norm(channels, width, 1), nn.ReLU(inplace=True),
                                  conv_norm(width, width, 3, stride), nn.ReLU(inplace=True),
                                  conv_norm(width, out, 1))
        self.short = nn.Identity()
        if stride > 1 or channels != out:
            self.short = conv_norm(channels, out, 1, stride)

    def forward(self, x):
        return F.relu(self.body(x) + self.short(x))


class ResNet(nn.Module):
    """ResNet-50 of He et al., 2015, with the stride in the 3x3 convolution."""

    def __init__(self, stages):
        super().__init__()
        blocks, channels = [], 64
        for i, count in enumerate(stages):
            for j in range(count):
                blocks.append(Bottleneck(channels, 64 << i, 2 if i and not j else 1))
                channels = 256 << i
        self.first = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64),
                                   nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1))
        self.blocks = nn.Sequential(*blocks)
        self.last = nn.Linear(channels, gpu_peer.CLASSES["resnet50"])

    def forward(self, x):
        return self.last(self.blocks(self.first(x)).mean((2, 3)))


class Block(nn.Module):

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        rows, positions, width = x.shape
        q, k, v = (t.view(rows, positions, self.heads, -1).transpose(1, 2)
                   for t in self.qkv(self.norm1(x)).chunk(3, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(y.transpose(1, 2).reshape(rows, positions, width))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt2(nn.Module):

    def __init__(self, layers, width, heads, vocabulary, positions):
        super().__init__()
        self.token, self.place = nn.Embedding(vocabulary, width), nn.Embedding(positions, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        for weight in self.parameters():
            if weight.ndim == 2:
                nn.init.normal_(weight, std=0.02)

    def forward(self, x):
        x = self.token(x) + self.place.weight
        return F.linear(self.norm(self.blocks(x)), self.token.weight)


def make_model(args, case):
    torch.manual_seed(1)
    if args.language_model:
        return Gpt2(*args.language_model)
    return ResNet(args.resnet[0]) if args.model == "resnet50" else FeedForward(case)


def make_optimizer(args, model, capturable):
    if args.language_model:
        return torch.optim.Adam(model.parameters(), lr=gpu_peer.ADAM_LEARNING_RATE, fused=True,
                                capturable=capturable)
    momentum = gpu_peer.MOMENTUM if args.model == "resnet50" else 0
    return torch.optim.SGD(model.parameters(), lr=gpu_peer.LEARNING_RATE, momentum=momentum,
                           fused=True)


class Capture:
    """Returns a step that is captured after enough runs for the libraries to be initialised."""

    def __init__(self, step, optimizer):
        self.step, self.optimizer = step, optimizer
        self.calls, self.graph, self.loss = 0, None, None
        self.stream = torch.cuda.Stream()

    def __call__(self):
        self.calls += 1
        if self.calls <= gpu_peer.CHECKED_STEPS:
            self.stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.stream):
                loss = self.step()
            torch.cuda.current_stream().wait_stream(self.stream)
            return loss
        if self.graph is None:
            self.optimizer.zero_grad(set_to_none=True)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.loss = self.step()
        self.graph.replay()
        return self.loss


MODES = {"compile": "default", "max-autotune": "max-autotune"}


def make_variant(name, args, case):
    cuda = args.device == "cuda"
    if name == "graph" and not cuda:
        raise RuntimeError("a CUDA graph needs a GPU")
    before = torch.cuda.memory_allocated() if cuda else 0
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    inputs = torch.from_numpy(case.inputs).to(args.device)
    labels = torch.from_numpy(case.labels).long().to(args.device)
    model = make_model(args, case).to(args.device)
    if inputs.ndim == 4:
        inputs = inputs.permute(0, 3, 1, 2)  # a view: channels last in memory
        model = model.to(memory_format=torch.channels_last)
    optimizer = make_optimizer(args, model, capturable=name == "graph" and cuda)
    called = torch.compile(model, mode=MODES[name]) if name in MODES else model

    def precision():
        if args.precision != "bf16":
            return contextlib.nullcontext()
        # Autocast's weight cache would outlive a captured step.
        return torch.autocast(args.device, torch.bfloat16, cache_enabled=name != "graph")

    def step():
        optimizer.zero_grad(set_to_none=True)
        with precision():
            logits = called(inputs)
            loss = F.cross_entropy(logits.flatten(0, -2).float(), labels.flatten())
        loss.backward()
        optimizer.step()
        return loss.detach()

    if name == "graph":
        step = Capture(step, optimizer)

    def run(steps):
        loss = None
        for _ in range(steps):
            if name == "max-autotune" and cuda:
                torch.compiler.cudagraph_mark_step_begin()
            loss = step()
        return loss.item()  # waits

    def peak_memory():
        return variant.peak

    class Measured(gpu_peer.Variant):

        def warm_up(self, round_ms, began):
            super().warm_up(round_ms, began)
            self.peak = torch.cuda.max_memory_allocated() - before if cuda else None

    variant = Measured(name, run, peak_memory)
    return variant


def main():
    # The variant that takes longest to prepare comes last.
    args = gpu_peer.arguments(["eager", "graph", "compile", "max-autotune"])
    if args.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("torch: no GPU")
    torch.set_float32_matmul_precision("highest" if args.precision == "fp32" else "high")
    torch.backends.cudnn.allow_tf32 = args.precision != "fp32"
    torch.backends.cudnn.benchmark = True
    case = gpu_peer.Case(args)
    gpu_peer.serve(args, "torch", torch.__version__, lambda name: make_variant(name, args, case))


if __name__ == "__main__":
    main()
