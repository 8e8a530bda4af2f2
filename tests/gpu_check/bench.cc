// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu_check/bench.h"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "framework/core/json.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/gpu.h"
#include "kernels/cuda/libraries/compile.h"
#include "mirrorflow_debug.h"
#include "tests/kernels/cuda/host_time.h"
#include "tools/bench/statistics.h"
#include "tools/bench/training_case.h"

ABSL_FLAG(std::string, model, "mlp",
          "bench: mlp, cnn, transformer, gpt2, resnet50, or another model of mirrorflow bench");
ABSL_FLAG(int64_t, batch_size, 64, "bench: examples per step");
ABSL_FLAG(int, rounds, 9, "bench: turns that each variant takes");
ABSL_FLAG(double, round_ms, 150, "bench: approximate length of a turn, in milliseconds");
ABSL_FLAG(std::string, precision, "tf32",
          "bench: float32; tf32 (products and convolutions may round as tensor cores do); or bf16 "
          "(they compute in bfloat16)");
ABSL_FLAG(bool, serve, false, "bench: take one turn per line of standard input");
ABSL_FLAG(std::string, case_file, "",
          "bench: output file with the batch and weights for the peers");

namespace mirrorflow {
namespace {

constexpr int kCheckedSteps = 3;  // as in gpu_peer.py
// Limits on measuring the host; the first limit that is reached applies. Large models get fewer
// steps; the host's part of a step is the same for them.
constexpr size_t kHostSteps = 200;
constexpr absl::Duration kHostTime = absl::Seconds(1);

// One way to run the training step.
struct Variant {
  std::string name;
  std::unique_ptr<Strategy> strategy;
  ReadyStep training;  // without its strategy
  std::vector<double> losses;
  double first_step_ms = 0;
  int64_t compilations = 0;     // runs of the kernel compiler
  int64_t device_bytes = 0;     // memory taken from the GPU, including by libraries
  int64_t allocated_bytes = 0;  // allocated by Mirrorflow: variables, arena and feeds
  int64_t variable_bytes = 0, arena_bytes = 0, live_bytes = 0;
  CudaActivity activity;  // activity in the last checked step
  size_t kernels = 0;
  int64_t flops = 0;  // operations per step in products and convolutions
  Side side;
  std::vector<double> rounds_ms;
  double host_us = 0;
};

absl::Status Open(Variant* v) {
  const int64_t free = DescribeGpu(0).free_bytes, allocated = AllocatedCudaBytes();
  const int64_t compilations = NumCudaCompilations();
  const MonotonicTime start = MonotonicTime::Now();
  MF_ASSIGN_OR_RETURN(TrainingGraph g, BuildTraining(*v->strategy, absl::GetFlag(FLAGS_model)));
  ReadyStep& t = v->training;
  MF_ASSIGN_OR_RETURN(t.feeds, NoiseBatch(g, absl::GetFlag(FLAGS_batch_size)));
  MF_ASSIGN_OR_RETURN(t.session, v->strategy->NewSession(g.graph));
  v->variable_bytes = AllocatedCudaBytes() - allocated;
  MF_ASSIGN_OR_RETURN(t.step, t.session->Prepare({g.inputs, g.labels}, {g.loss}, g.targets));
  if (const std::string path = absl::GetFlag(FLAGS_case_file); !path.empty()) {
    MF_ASSIGN_OR_RETURN(const auto file, CaseFile::Write(*t.session, t.feeds));
    // The file is deleted with its object; the copy remains.
    MF_ASSIGN_OR_RETURN(const auto arrays, ReadNpz(file->path()));
    MF_RETURN_IF_ERROR(WriteNpz(path, arrays));
  }
  for (int i = 0; i < kCheckedSteps; ++i) {
    const CudaActivity before = ActivityOfSteps();
    MF_ASSIGN_OR_RETURN(const StepOutputs out, t.step.Run(t.feeds, {.next_feeds = t.feeds}));
    v->activity = ActivityOfSteps() - before;
    v->losses.push_back(out[0].scalar<float>());
    if (i == 0) v->first_step_ms = absl::ToDoubleMilliseconds(MonotonicTime::Now() - start);
  }
  MF_ASSIGN_OR_RETURN(const StepPlans plans,
                      CompileStep(t.step, {t.feeds[0].shape(), t.feeds[1].shape()}));
  v->kernels = plans.plans[0]->kernels.size();
  v->flops = plans.plans[0]->flops;
  v->arena_bytes = plans.plans[0]->arena_bytes;
  v->live_bytes = plans.plans[0]->live_bytes;
  v->compilations = NumCudaCompilations() - compilations;
  v->device_bytes = free - DescribeGpu(0).free_bytes;
  v->allocated_bytes = AllocatedCudaBytes() - allocated;
  v->side = MakeSide([&t] { return t.step.Run(t.feeds, {.next_feeds = t.feeds}).status(); });
  return absl::OkStatus();
}

absl::Status MeasureHost(Variant* v) {
  std::vector<double> us;
  const MonotonicTime end = MonotonicTime::Now() + kHostTime;
  while (us.empty() || (us.size() < kHostSteps && MonotonicTime::Now() < end)) {
    StartHostTime();
    const std::vector<Tensor>& feeds = v->training.feeds;
    MF_RETURN_IF_ERROR(v->training.step.Run(feeds, {.next_feeds = feeds}).status());
    us.push_back(static_cast<double>(HostTimeNs()) / 1e3);
  }
  v->host_us = Quantile(us, 0.5);
  return absl::OkStatus();
}

absl::Status TakeTurn(bool reversed, std::vector<Variant>* variants) {
  const size_t count = variants->size();
  for (size_t i = 0; i < count; ++i) {
    Variant& v = (*variants)[reversed ? count - 1 - i : i];
    MF_ASSIGN_OR_RETURN(const double ms, v.side(absl::GetFlag(FLAGS_round_ms)));
    v.rounds_ms.push_back(ms);
  }
  return absl::OkStatus();
}

std::string Numbers(const std::vector<double>& values) {
  return absl::StrCat("[", absl::StrJoin(values, ","), "]");
}

void Print(const Variant& v) {
  absl::PrintF(
      "{\"name\":%s,\"model\":%s,\"batch\":%d,\"precision\":%s,\"median_ms\":%.6f,\"q1_ms\":%.6f,"
      "\"q3_ms\":%.6f,\"rounds_ms\":%s,\"losses\":%s,\"host_us\":%.3f,\"first_step_ms\":%.3f,"
      "\"compilations\":%d,\"kernels\":%d,\"graph_launches\":%d,\"copies_in\":%d,"
      "\"copies_out\":%d,\"waits\":%d,\"flops\":%d,"
      "\"variable_bytes\":%d,\"arena_bytes\":%d,\"live_bytes\":%d,\"peak_memory\":%d,"
      "\"device_memory\":%d}\n",
      JsonQuote(v.name), JsonQuote(absl::GetFlag(FLAGS_model)), absl::GetFlag(FLAGS_batch_size),
      JsonQuote(absl::GetFlag(FLAGS_precision)), Quantile(v.rounds_ms, 0.5),
      Quantile(v.rounds_ms, 0.25), Quantile(v.rounds_ms, 0.75), Numbers(v.rounds_ms),
      Numbers(v.losses), v.host_us, v.first_step_ms, v.compilations, v.kernels,
      v.activity.graph_launches, v.activity.copies_in, v.activity.copies_out, v.activity.waits,
      v.flops, v.variable_bytes, v.arena_bytes, v.live_bytes, v.allocated_bytes, v.device_bytes);
}

absl::StatusOr<CompileOptions> CompileWithPrecision(absl::string_view precision) {
  CompileOptions compile;
  if (precision == "float32") return compile;
  compile.kernels.allow_tf32 = true;  // for operations not in bfloat16, as in the peers
  if (precision == "tf32") return compile;
  compile.compute_dtype = DT_BFLOAT16;
  if (precision == "bf16") return compile;
  return absl::InvalidArgumentError(
      absl::StrCat("--precision: expected float32, tf32 or bf16, got '", precision, "'"));
}

absl::StatusOr<std::vector<Variant>> MakeVariants() {
  MF_ASSIGN_OR_RETURN(const CompileOptions compile,
                      CompileWithPrecision(absl::GetFlag(FLAGS_precision)));
  std::vector<Variant> variants(2);
  variants[0].name = "mirrorflow";
  MF_ASSIGN_OR_RETURN(variants[0].strategy,
                      MirroredStrategy::Create({.devices = {"GPU:0"}, .compile = compile}));
  variants[1].name = "mirrorflow, no strategy";
  MF_ASSIGN_OR_RETURN(variants[1].strategy,
                      OneDeviceStrategy::Create({.device = "GPU:0", .compile = compile}));
  return variants;
}

}  // namespace

absl::Status GpuBench() {
  MF_ASSIGN_OR_RETURN(std::vector<Variant> variants, MakeVariants());
  for (Variant& v : variants) MF_RETURN_IF_ERROR(Annotate(Open(&v), v.name));
  bool reversed = false;
  if (absl::GetFlag(FLAGS_serve)) {
    std::puts("ready");
    std::fflush(stdout);
    for (std::string line; std::getline(std::cin, line);) {
      MF_RETURN_IF_ERROR(TakeTurn(std::exchange(reversed, !reversed), &variants));
      std::puts("done");
      std::fflush(stdout);
    }
  } else {
    for (int i = 0; i < absl::GetFlag(FLAGS_rounds); ++i) {
      MF_RETURN_IF_ERROR(TakeTurn(std::exchange(reversed, !reversed), &variants));
    }
  }
  for (Variant& v : variants) {
    MF_RETURN_IF_ERROR(MeasureHost(&v));
    Print(v);
  }
  return absl::OkStatus();
}

absl::Status PrintGpus() {
  MF_ASSIGN_OR_RETURN(const int num_gpus, NumGpus());
  if (num_gpus == 0) return absl::NotFoundError(WhyNoGpus());
  std::vector<std::string> gpus;
  for (int i = 0; i < num_gpus; ++i) {
    const GpuInfo gpu = DescribeGpu(i);
    MF_RETURN_IF_ERROR(gpu.usable);
    gpus.push_back(absl::StrCat("{\"name\":", JsonQuote(gpu.name),
                                ",\"capability\":", JsonQuote(gpu.capability),
                                ",\"memory_bytes\":", gpu.memory_bytes, "}"));
  }
  std::printf("{\"gpus\":[%s]}\n", absl::StrJoin(gpus, ",").c_str());
  return absl::OkStatus();
}

}  // namespace mirrorflow
