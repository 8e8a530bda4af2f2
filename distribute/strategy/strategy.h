// SPDX-License-Identifier: Apache-2.0
//
// Strategy: takes a program that is written for one device and the global batch, and runs it on the
// devices of the strategy. OneDeviceStrategy runs it on one device; MirroredStrategy runs it on
// several local devices in lockstep, with equal copies of all variables;
// MultiWorkerMirroredStrategy (multi_worker_mirrored_strategy.h) runs it on the devices of several
// processes.
//
//   MF_ASSIGN_OR_RETURN(auto strategy, MirroredStrategy::Create({.num_cpu_replicas = 2}));
//   { auto mirrored = strategy->scope(); … }  // variables created in this block belong to it
//   MF_ASSIGN_OR_RETURN(auto session, strategy->NewSession(graph));
#ifndef MIRRORFLOW_DISTRIBUTE_STRATEGY_STRATEGY_H_
#define MIRRORFLOW_DISTRIBUTE_STRATEGY_STRATEGY_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "distribute/strategy/distributed_dataset.h"
#include "distribute/strategy/input_agreement.h"
#include "framework/data/batch_provider.h"
#include "framework/graph/creation_scope.h"
#include "framework/graph/variable_handle.h"
#include "framework/runtime/topology.h"
#include "framework/session/session.h"

namespace mirrorflow {

class Extensions;  // distribute/strategy/extensions.h

class Strategy {
 public:
  virtual ~Strategy() = default;

  // Returns the replicas of all workers. A replica is one running copy of a step, on one device;
  // its rank is its index here. A worker is a process with one or more replicas (in PyTorch, a rank
  // is a process). The reference is valid until Rejoin.
  virtual const Topology& topology() const = 0;
  // Returns the number of replicas of all workers. Session::world_size() returns the same number.
  int num_replicas_in_sync() const { return topology().world_size(); }
  // Returns the index of this process among the workers. Worker 0 writes files and reports results.
  virtual int worker() const { return 0; }

  // Returns a name that is unique in this process, such as `MirroredStrategy #1`. Errors and the
  // text form of graphs use it.
  const std::string& name() const { return name_; }

  // Returns a guard. Variables that this thread creates while the guard exists belong to this
  // strategy: only its sessions accept them. The guard is unrelated to the class Scope, which adds
  // and names nodes.
  [[nodiscard]] CreationScope scope() const { return CreationScope(name_); }

  // Returns a session that runs steps of a snapshot of `graph`. Initialises the variables once,
  // with equal values on all replicas. Returns the first error that occurred while the graph was
  // built, InvalidArgument if a variable does not belong to this strategy, and ResourceExhausted if
  // the variables exceed the option max_bytes. Variables of graphs that were read from files belong
  // to every strategy.
  absl::StatusOr<std::unique_ptr<Session>> NewSession(const Graph& graph) const;

  // Returns the batches of epoch `epoch` of `dataset`; epochs are numbered from 0, and the number
  // determines the shuffle order. A Dataset produces the batches ahead of time on a separate
  // thread. Unless each worker has its own dataset (AutoShardPolicy::kOff), all workers must call
  // this for the same datasets in the same order, and read the batches. If the datasets differ, the
  // first Next() fails on all workers; DistributeOptions::compare_data controls this comparison.
  // For a BatchProvider without a fingerprint, only the first batch is compared: its values if
  // every worker has the whole batch, and otherwise only its row count and types.
  DistributedDataset Distribute(const BatchProvider& dataset, int64_t epoch = 0,
                                const DistributeOptions& options = {}) const;

  // Reduces the replicas' values to their sum, mean, maximum or minimum, in rank order. The result
  // has the shape and dtype of each value. Returns InvalidArgument if there are no values, if their
  // shapes or dtypes differ, if the dtype is not a floating-point type, int32 or int64, or for any
  // other reduction.
  static absl::StatusOr<Tensor> Reduce(Reduction reduction, absl::Span<const Tensor> per_replica);
  // Concatenates the replicas' values, in rank order, along dimension `axis`. Returns
  // InvalidArgument if there are no values, if `axis` is not in [0, rank of the values), or if the
  // dtypes or any other dimensions differ.
  static absl::StatusOr<Tensor> Gather(absl::Span<const Tensor> per_replica, int axis);

  // AwaitOtherWorkers and Rejoin are for RunWithRejoin; programs need not call them.
  //
  // Blocks until all workers have called this, or until one is lost, which is an error. Returns OK
  // at once if the strategy does not rejoin (see JoinOptions::rejoin_timeout).
  virtual absl::Status AwaitOtherWorkers() const { return absl::OkStatus(); }
  // Leaves the cluster after the failure `why`, and rejoins it as soon as all workers do, including
  // the restarted replacement of a lost worker. Returns `why` if the strategy does not rejoin, if
  // `why` is not the loss of a worker, or if the whole job is ending. Returns FailedPrecondition if
  // a session or a DistributedDataset of the strategy still exists.
  virtual absl::Status Rejoin(const absl::Status& why) { return why; }

 protected:
  // `kind` is the strategy's class name. It must be a string literal.
  Strategy(absl::string_view kind, SessionOptions options);

  virtual absl::StatusOr<SessionBackend> MakeBackend() const = 0;
  // Returns a new object through which the workers agree on one dataset's input.
  virtual absl::StatusOr<std::unique_ptr<InputAgreement>> AgreeOnInput() const;
  // Returns whether variables must be created inside scope().
  virtual bool requires_scope() const { return true; }

 private:
  absl::Status CheckScopes(const Graph& graph) const;

  const absl::string_view kind_;
  const std::string name_;
  const SessionOptions session_options_;
};

// Runs on one device without replication. Variables need not be created inside scope().
class OneDeviceStrategy final : public Strategy {
 public:
  struct Options {
    std::string device = "CPU:0";  // or `GPU:0`, …
    // On a CPU, the number of threads that run a step, 1 to 256. See MirroredStrategy.
    int threads_per_replica = 1;
    uint64_t seed = 0;  // for random ops without a seed attribute
    // A step that takes longer fails with DeadlineExceeded. Default: 10 minutes.
    absl::Duration step_timeout = SessionOptions().step_timeout;
    // Memory limit for variables and runs in progress, in bytes. Default: 2^60, so in effect none.
    int64_t max_bytes = SessionOptions().max_bytes;
    // The number of compiled steps that a session caches; it evicts the least recently used one. A
    // step has one entry for each combination of feed shapes that it runs with. Default: 128.
    int max_cached_steps = SessionOptions().max_cached_steps;
    // On a CPU, the maximum number of concurrent runs of steps that write no variables. Further
    // runs wait, for at most `step_timeout`. Default: 0, which means the number of CPUs available
    // to the process, divided by `threads_per_replica`.
    int max_concurrent_runs = SessionOptions().max_concurrent_runs;
    // If true, a step that has run before is replayed as CUDA graphs. Only for GPUs.
    bool capture_steps = true;
    CompileOptions compile = {};
    // The user's own ops, kernels and passes; borrowed.
    const Extensions* extensions = nullptr;
  };
  // Returns InvalidArgument, naming the option, if an option is out of range or the extensions are
  // invalid. Returns NotFound if the host has no such GPU, and Unimplemented for a GPU in a build
  // without CUDA. Without options, uses the defaults.
  static absl::StatusOr<std::unique_ptr<OneDeviceStrategy>> Create(const Options& options);
  static absl::StatusOr<std::unique_ptr<OneDeviceStrategy>> Create() { return Create(Options()); }

  const Topology& topology() const override { return topology_; }

 private:
  explicit OneDeviceStrategy(const Options& options);
  absl::StatusOr<SessionBackend> MakeBackend() const override;
  bool requires_scope() const override { return false; }

  const Options options_;
  const Topology topology_;
};

// Mirrors variables on several local devices. By default, it uses all local GPUs or, without a GPU,
// CPU replicas.
class MirroredStrategy final : public Strategy {
 public:
  struct Options {
    // `GPU:0`, `GPU:1`, …, or `CPU:0`, …. If empty, uses all local GPUs or, without a GPU, CPU
    // replicas. A GPU that is named several times serves as several logical GPUs.
    std::vector<std::string> devices = {};
    // The number of CPU replicas if `devices` is empty; at least 1. Default: the number of cores
    // divided by `threads_per_replica`, at most 16.
    std::optional<int> num_cpu_replicas = std::nullopt;
    // The number of threads that run each CPU replica, 1 to 256, each on its own core. They divide
    // the work of each large op. A replica keeps one copy of its values and reads each weight once,
    // however many threads it has. Results are the same for any number. Default: if `devices` and
    // `num_cpu_replicas` are also unset, as many as use all cores; otherwise 1.
    std::optional<int> threads_per_replica = std::nullopt;
    // Size limit, in bytes, of a gradient bucket: the gradients that one all-reduce carries.
    // Default: 0, which selects 512 KiB on CPUs, 16 MiB on GPUs, and between hosts a size that
    // depends on the cost of the link.
    int64_t bucket_bytes = SessionOptions().bucket_bytes;
    uint64_t seed = 0;  // for random ops without a seed attribute
    // How long a collective waits for other replicas, and how long a step may take, before they
    // fail. Defaults: 5 and 10 minutes; under MultiWorkerMirroredStrategy,
    // JoinOptions::prepare_timeout plus 10 and 20 minutes.
    std::optional<absl::Duration> collective_timeout = std::nullopt;
    std::optional<absl::Duration> step_timeout = std::nullopt;
    bool pin_threads = true;  // if true, pins each replica to its own cores
    // Memory limit for variables and one step, in bytes. Default: 2^60, so in effect none.
    int64_t max_bytes = SessionOptions().max_bytes;
    // The number of compiled steps that a session caches; it evicts the least recently used one. A
    // step has one entry for each combination of feed shapes and replicas' row counts that it runs
    // with. Default: 128.
    int max_cached_steps = SessionOptions().max_cached_steps;
    // If true, a step that has run before is replayed as CUDA graphs. Only for GPUs.
    bool capture_steps = true;
    // On GPUs, if true, captures a step and its collectives as a single graph; if false, graphs end
    // at collectives. Default: true if each worker has one GPU. NVIDIA warns that this can hang if
    // a process uses several GPUs; `step_timeout` ends such a step. A traced step does not run as a
    // graph, so all workers must trace the same steps.
    std::optional<bool> capture_collectives = std::nullopt;
    // On GPUs, if true, makes NCCL reduce in a fixed order. All other computation is reproducible
    // in any case, unless `compile.kernels.autotune` is set.
    bool deterministic = false;
    CompileOptions compile = {};
    // The user's own ops, kernels and passes; borrowed.
    const Extensions* extensions = nullptr;

    // Returns InvalidArgument, naming the option, unless timeouts, `max_bytes` and
    // `max_cached_steps` are above 0, `bucket_bytes` is not negative and `threads_per_replica` is
    // in range.
    absl::Status Check() const;
    // Returns a copy of these options; timeouts that are not set get the given defaults.
    Options WithTimeouts(absl::Duration collective, absl::Duration step) const;
    // Returns the options of the strategy's sessions. `step_timeout` must be set.
    SessionOptions ForSessions() const;
  };
  // Returns InvalidArgument, naming the option, if an option is out of range, if `devices` mixes
  // CPUs and GPUs, or if the extensions are invalid. Returns NotFound if the host has no such GPU,
  // and Unimplemented for a GPU in a build without CUDA. Without options, uses the defaults.
  static absl::StatusOr<std::unique_ptr<MirroredStrategy>> Create(const Options& options);
  static absl::StatusOr<std::unique_ptr<MirroredStrategy>> Create() { return Create(Options()); }

  const Topology& topology() const override { return topology_; }

 private:
  MirroredStrategy(const Options& options, Topology topology);
  absl::StatusOr<SessionBackend> MakeBackend() const override;

  const Options options_;
  const Topology topology_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_STRATEGY_STRATEGY_H_
