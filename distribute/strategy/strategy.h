// SPDX-License-Identifier: Apache-2.0
//
// Strategy: how a program of one device and the global batch runs on several. OneDeviceStrategy
// runs it as it is; MirroredStrategy on every local device in lock-step, with equal copies of all
// variables.
//
//   MF_ASSIGN_OR_RETURN(auto strategy, MirroredStrategy::Create({.num_cpu_replicas = 2}));
//   { auto mirrored = strategy->scope(); … }              // variables made in here are mirrored
//   MF_ASSIGN_OR_RETURN(auto session, strategy->NewSession(graph));
#ifndef MIRRORFLOW_DISTRIBUTE_STRATEGY_STRATEGY_H_
#define MIRRORFLOW_DISTRIBUTE_STRATEGY_STRATEGY_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "distribute/strategy/distributed_dataset.h"
#include "framework/core/batch_source.h"
#include "framework/graph/creation_scope.h"
#include "framework/runtime/topology.h"
#include "framework/session/session.h"

namespace mirrorflow {

class Strategy {
 public:
  virtual ~Strategy() = default;

  virtual const Topology& topology() const = 0;
  int num_replicas_in_sync() const { return topology().world_size(); }

  // Variables that are created on this thread while the result lives are mirrored.
  CreationScope scope() const { return CreationScope(this); }

  // Makes `graph` ready to run: a snapshot of it, its variables initialised once and equal on all
  // replicas. InvalidArgument for an error while the graph was built, or a variable that was
  // created outside scope().
  absl::StatusOr<std::unique_ptr<Session>> NewSession(const Graph& graph) const;

  // The batches of one epoch of `dataset` (anything with MakeIterator(epoch)). A Dataset makes them
  // ahead of time, on a thread of their own.
  template <typename D>
  DistributedDataset Distribute(const D& dataset, int64_t epoch = 0) const {
    return DistributedDataset(dataset.MakeIterator(epoch));
  }

  // One value out of the replicas' values: their sum, mean, maximum or minimum, in rank order. All
  // must have one dtype (a floating one, int32 or int64) and shape.
  static absl::StatusOr<Tensor> Reduce(Reduction reduction, absl::Span<const Tensor> per_replica);
  // The replicas' values, one after the other along dimension `axis`.
  static absl::StatusOr<Tensor> Gather(absl::Span<const Tensor> per_replica, int axis);

 protected:
  explicit Strategy(SessionOptions options) : session_options_(std::move(options)) {}

  virtual absl::StatusOr<SessionBackend> MakeBackend() const = 0;
  // Whether variables must have been created inside scope().
  virtual bool requires_scope() const { return true; }

 private:
  const SessionOptions session_options_;
};

// One device, no replication. No scope is needed.
class OneDeviceStrategy final : public Strategy {
 public:
  struct Options {
    std::string device = "CPU:0";  // or `GPU:0`, …
    uint64_t seed = 0;             // of random ops that have none of their own
    absl::Duration step_timeout =
        SessionOptions().step_timeout;               // a step that takes longer is given up
    int64_t max_bytes = SessionOptions().max_bytes;  // of memory, for variables and one step
    // On GPUs: run a step that was run before as CUDA graphs.
    bool capture_steps = true;
    CompileOptions compile = {};
  };
  static absl::StatusOr<std::unique_ptr<OneDeviceStrategy>> Create(const Options& options);
  static absl::StatusOr<std::unique_ptr<OneDeviceStrategy>> Create();

  const Topology& topology() const override { return topology_; }

 private:
  explicit OneDeviceStrategy(const Options& options);
  absl::StatusOr<SessionBackend> MakeBackend() const override;
  bool requires_scope() const override { return false; }

  const bool capture_steps_;
  const Topology topology_;
};

// Every local device: the named ones, else every GPU, else CPU replicas.
class MirroredStrategy final : public Strategy {
 public:
  struct Options {
    // `GPU:0`, `GPU:1`, …, or `CPU:0`, …; empty: every local GPU, else CPU replicas. One GPU that
    // is named several times is as many logical GPUs.
    std::vector<std::string> devices = {};
    // How many CPU replicas, if no device is named, from 1 on; nothing: one for each core, at
    // most 8.
    std::optional<int> num_cpu_replicas = std::nullopt;
    // A bucket of gradients, which one all-reduce carries, is closed before it grows above this;
    // 0: 512 KiB on CPUs, 16 MiB on GPUs.
    int64_t bucket_bytes = SessionOptions().bucket_bytes;
    uint64_t seed = 0;  // of random ops that have none of their own
    // How long a collective may wait for the other replicas, and how long a step may take.
    absl::Duration collective_timeout = absl::Minutes(5);
    absl::Duration step_timeout = SessionOptions().step_timeout;
    bool pin_threads = true;                         // each to its share of the cores
    int64_t max_bytes = SessionOptions().max_bytes;  // of memory, for variables and one step
    // On GPUs: run a step that was run before as CUDA graphs.
    bool capture_steps = true;
    // On GPUs: with their collectives, a step as one graph. NVIDIA warns that this may hang where a
    // process has several GPUs; `step_timeout` ends that. Else graphs end where collectives are.
    bool capture_collectives = false;
    // On GPUs: NCCL adds up in one order. All else always gives the same bits.
    bool deterministic = false;
    CompileOptions compile = {};
  };
  static absl::StatusOr<std::unique_ptr<MirroredStrategy>> Create(const Options& options);
  static absl::StatusOr<std::unique_ptr<MirroredStrategy>> Create();

  const Topology& topology() const override { return topology_; }

 private:
  MirroredStrategy(const Options& options, Topology topology);
  absl::StatusOr<SessionBackend> MakeBackend() const override;

  const Options options_;
  const Topology topology_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_STRATEGY_STRATEGY_H_
