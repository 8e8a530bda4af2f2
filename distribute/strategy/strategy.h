// SPDX-License-Identifier: Apache-2.0
//
// Strategy: takes a program that is written for one device and the global batch, and runs it on
// several devices. OneDeviceStrategy runs it on one device. MirroredStrategy runs it on every local
// device in lockstep, with equal copies of all variables. MultiWorkerMirroredStrategy
// (multi_worker_mirrored_strategy.h) does so on the devices of several workers.
//
//   MF_ASSIGN_OR_RETURN(auto strategy, MirroredStrategy::Create({.num_cpu_replicas = 2}));
//   { auto mirrored = strategy->scope(); … }  // variables created in this block belong to it
//   MF_ASSIGN_OR_RETURN(auto session, strategy->NewSession(graph));
//
// A *replica* is one running copy of the program, on one device. Its *rank* is its index among the
// replicas of all workers. A *worker* is a process, which can run several replicas. (PyTorch calls
// a process a rank.)
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
  virtual ~Strategy();

  // Returns the replicas of all workers. The reference is valid until Rejoin.
  virtual const Topology& topology() const = 0;
  // Returns the number of replicas of all workers, which other frameworks call the world size.
  int num_replicas_in_sync() const { return topology().world_size(); }
  // Returns the index of this process among the workers. Worker 0 writes files and reports results.
  virtual int worker() const { return 0; }

  // Returns a name that is unique in this process, such as `MirroredStrategy #1`. Errors and the
  // text form of graphs use it.
  const std::string& name() const { return name_; }

  // Returns a guard. Variables that this thread creates during the guard's lifetime belong to this
  // strategy: only its sessions accept them. The guard is unrelated to the class Scope, which adds
  // nodes to a graph.
  [[nodiscard]] CreationScope scope() const { return CreationScope(name_); }

  // Returns a session that runs steps of a snapshot of `graph`. Initialises the variables once,
  // with equal values on all replicas. Variables of graphs that were read from files belong to
  // every strategy. Returns any error that occurred while the graph was built, InvalidArgument for
  // a variable that does not belong to this strategy, and ResourceExhausted if the variables do not
  // fit into memory or `max_bytes`.
  absl::StatusOr<std::unique_ptr<Session>> NewSession(const Graph& graph) const;

  // Returns the batches of one epoch of `dataset`. A Dataset produces them ahead of time on a
  // separate thread. Unless each worker has its own dataset (AutoShardPolicy::kOff), all workers
  // must call this for the same datasets in the same order, and read the batches. If the datasets
  // differ, the first Next() fails on all workers; DistributeOptions::compare_data controls this
  // comparison. For a BatchProvider without a fingerprint, only the first batch is compared: its
  // values if every worker has the whole batch, and otherwise only its row count and types.
  DistributedDataset Distribute(const BatchProvider& dataset, int64_t epoch = 0,
                                const DistributeOptions& options = {}) const;

  // Reduces the replicas' values to their sum, mean, maximum or minimum, in rank order. Returns
  // InvalidArgument if there are no values, or if they differ in shape or dtype. The dtype must be
  // a floating-point type, int32 or int64.
  static absl::StatusOr<Tensor> Reduce(Reduction reduction, absl::Span<const Tensor> per_replica);
  // Concatenates the replicas' values along dimension `axis`. Returns InvalidArgument if there are
  // no values, if `axis` is not in [0, rank), or if they differ in dtype or in any other dimension.
  static absl::StatusOr<Tensor> Gather(absl::Span<const Tensor> per_replica, int axis);

  // For RunWithRejoin, which calls AwaitOtherWorkers and Rejoin.
  //
  // Blocks until all workers have called this, or until one is lost, which is an error. Returns OK
  // at once if the strategy does not rejoin (see JoinOptions::rejoin_timeout).
  virtual absl::Status AwaitOtherWorkers() const;
  // Leaves the cluster after the failure `why`, and rejoins it as soon as all workers do, including
  // the restarted replacement of a lost worker. Returns `why` if the strategy does not rejoin, if
  // `why` is not the loss of a worker, or if the whole job is ending. Returns FailedPrecondition if
  // a session or a DistributedDataset of the strategy still exists.
  virtual absl::Status Rejoin(const absl::Status& why);

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
  // Returns the shard of a batch that this worker's replicas read.
  BatchShard LocalShard() const;

  const absl::string_view kind_;
  const std::string name_;
  const SessionOptions session_options_;
};

// Runs on one device without replication. Variables need not be created inside scope().
class OneDeviceStrategy final : public Strategy {
 public:
  struct Options {
    std::string device = "CPU:0";  // or `GPU:0`, …
    uint64_t seed = 0;             // for random ops without a seed attribute
    // A step that takes longer fails. Default: 10 minutes.
    absl::Duration step_timeout = SessionOptions().step_timeout;
    // Memory limit for variables and runs in progress, in bytes. Default: 2^60, in effect
    // unlimited.
    int64_t max_bytes = SessionOptions().max_bytes;
    // Capacity of a session's LRU cache of compiled steps. Each set of feed shapes takes one entry.
    // Default: 128.
    int max_cached_steps = SessionOptions().max_cached_steps;
    // On a CPU, the maximum number of concurrent runs of steps that write no variables; 0: one per
    // CPU that the process may use. Further runs wait, for at most `step_timeout`.
    int max_concurrent_runs = SessionOptions().max_concurrent_runs;
    // If true, a step that has run before is replayed as CUDA graphs. Only for GPUs.
    bool capture_steps = true;
    CompileOptions compile = {};
    // The user's own ops, kernels and passes; borrowed.
    const Extensions* extensions = nullptr;
  };
  // Returns InvalidArgument for an invalid option, and an error if the device does not exist.
  static absl::StatusOr<std::unique_ptr<OneDeviceStrategy>> Create(const Options& options);
  static absl::StatusOr<std::unique_ptr<OneDeviceStrategy>> Create();

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
    // The number of CPU replicas if no device is named; at least 1. By default, one per core, at
    // most 8.
    std::optional<int> num_cpu_replicas = std::nullopt;
    // Size limit of a gradient bucket, which one all-reduce carries, in bytes. With 0, the default,
    // it is 512 KiB on CPUs, 16 MiB on GPUs, and between hosts a size that depends on the cost of
    // the link.
    int64_t bucket_bytes = SessionOptions().bucket_bytes;
    uint64_t seed = 0;  // for random ops without a seed attribute
    // How long a collective waits for other replicas, and how long a step may take, before they
    // fail. Defaults: 5 and 10 minutes; with several workers, `prepare_timeout` plus 10 and 20
    // minutes.
    std::optional<absl::Duration> collective_timeout = std::nullopt;
    std::optional<absl::Duration> step_timeout = std::nullopt;
    bool pin_threads = true;  // if true, each replica is pinned to its own cores
    // Memory limit for variables and one step, in bytes. Default: 2^60, in effect unlimited.
    int64_t max_bytes = SessionOptions().max_bytes;
    // Capacity of a session's LRU cache of compiled steps. Each set of feed shapes takes one entry,
    // and so does each set of RunOptions::replica_rows. Default: 128.
    int max_cached_steps = SessionOptions().max_cached_steps;
    // If true, a step that has run before is replayed as CUDA graphs. Only for GPUs.
    bool capture_steps = true;
    // If true, a step and its collectives are captured as a single CUDA graph; if false, graphs end
    // at collectives. Only for GPUs. Default: true if each worker has one GPU. NVIDIA warns that
    // this can hang if a process uses several GPUs; `step_timeout` ends such a step. A traced step
    // does not run as a graph, so all workers must trace the same steps.
    std::optional<bool> capture_collectives = std::nullopt;
    // If true, NCCL reduces in a fixed order. Only for GPUs. All other computation is reproducible
    // in any case, unless `compile.kernels.autotune` is set.
    bool deterministic = false;
    CompileOptions compile = {};
    // The user's own ops, kernels and passes; borrowed.
    const Extensions* extensions = nullptr;

    // Returns InvalidArgument, naming the option, unless timeouts, `max_bytes` and
    // `max_cached_steps` are above 0 and `bucket_bytes` is not negative.
    absl::Status Check() const;
    // Returns a copy of these options in which timeouts that are not set have the given defaults.
    Options WithTimeouts(absl::Duration collective, absl::Duration step) const;
    // Returns the options of the strategy's sessions. `step_timeout` must be set.
    SessionOptions ForSessions() const;
  };
  // Returns InvalidArgument for an invalid option, and an error if a device does not exist.
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
