// SPDX-License-Identifier: Apache-2.0
#include "tools/flags/step_flags.h"

#include "absl/flags/flag.h"

ABSL_FLAG(std::optional<int>, replicas, std::nullopt,
          "number of CPU replicas; default: 2 for inspect, explain and bench, one device for run");
ABSL_FLAG(
    std::optional<int>, threads_per_replica, std::nullopt,
    "run, explain, bench step, bench inference: number of threads that run each CPU replica, "
    "or the only device; with --graph and --models, peers use the same number; default: 1 or, if "
    "run chooses the number of replicas, as many as use all cores");
ABSL_FLAG(
    std::string, trace, "",
    "run, explain, bench step with --workers: write a Chrome trace of some steps to this file; the "
    "trace shows all workers, unless the name contains {worker}: then, each worker writes a file");
ABSL_FLAG(std::string, model, "mlp",
          "bench, explain: mlp, cnn, big, resnet, resnet50, resnet50_64, lstm, transformer, gpt2 "
          "or chain");
ABSL_FLAG(int64_t, batch_size, 64, "bench, explain: examples per step and replica");
ABSL_FLAG(std::string, optimizer, "sgd",
          "bench step, explain: sgd, momentum or adam; the other benchmarks train with sgd");
ABSL_FLAG(std::string, hook, "none",
          "bench step, explain: how replicas reduce gradients: none (all-reduce), bf16, fp16, "
          "powersgd or adasum");
ABSL_FLAG(std::vector<std::string>, without, {},
          "bench step: also measure without these compiler passes; explain: skip these passes");
ABSL_FLAG(
    int, workers, 1,
    "bench step: number of processes to measure, on --hosts or this machine, with --replicas each; "
    "explain: predict the steps of a cluster with this many workers");
ABSL_FLAG(std::string, transport, "threads",
          "bench allreduce: threads (in one process), or shared_memory, tcp or ucx between two "
          "processes; tcp and ucx also between --hosts; explain: the transport between --workers");
ABSL_FLAG(std::string, json, "", "bench, explain: write one JSON object per line to this file");
