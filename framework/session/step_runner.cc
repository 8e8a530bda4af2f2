// SPDX-License-Identifier: Apache-2.0
#include "framework/session/step_runner.h"

#include <malloc.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "framework/core/failpoint.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

Failpoint run_failpoint("session/run");

// How often a runner returns freed memory to the system, which takes about as long as compiling a
// small step.
constexpr uint64_t kEvictionsPerTrim = 64;

std::string FeedNames(absl::Span<const Output> feeds) {
  return absl::StrJoin(feeds, ", ", [](std::string* out, const Output& feed) {
    absl::StrAppend(out, feed.ToString());
  });
}

bool IsFed(const Plan& plan, const Operand& operand) {
  return operand.region >= Plan::kFirstFeedRegion && operand.region < plan.layout_region(0);
}

// Calls copy(offset in the shard, offset in the output, bytes) for each contiguous piece of one
// replica's shard of a fetch. `first_row`, counted in rows of the axis, is the shard's first row in
// the output.
template <typename Copy>
void ForEachPiece(const PlannedFetch& fetch, const Shape& output, int64_t first_row,
                  const Copy& copy) {
  const auto size = static_cast<int64_t>(DataTypeSize(fetch.dtype));
  const Sharded* s = AsSharded(fetch.sharding);
  if (s == nullptr) return copy(0, 0, fetch.local_shape.num_elements() * size);
  const int64_t outer = output.num_elements_before(s->dim);
  const int64_t inner = output.num_elements_from(s->dim + 1) * size;
  const int64_t first = first_row * s->factor * inner;
  const int64_t local = fetch.local_shape.dim(s->dim) * inner;
  const int64_t whole = output.dim(s->dim) * inner;
  for (int64_t o = 0; o < outer; ++o) copy(o * local, o * whole + first, local);
}

// Returns the global shapes of `feeds`. Split feeds contain only this worker's rows.
absl::StatusOr<std::vector<Shape>> GlobalShapes(absl::Span<const Output> outputs,
                                                absl::Span<const Tensor> feeds,
                                                absl::Span<const int64_t> replica_rows,
                                                absl::Span<const int> local_ranks, int world_size) {
  std::vector<Shape> shapes;
  for (size_t f = 0; f < feeds.size(); ++f) {
    Shape shape = feeds[f].shape();
    if (IsSplit(outputs[f], shape)) {
      const int64_t own = shape.dim(0);
      const auto ranks = static_cast<int64_t>(local_ranks.size());
      int64_t expected = own, all = own / ranks * world_size;
      if (!replica_rows.empty()) {
        expected = all = 0;
        for (const int64_t rows : replica_rows) all += rows;
        for (const int rank : local_ranks) expected += replica_rows[rank];
      } else if (own % ranks != 0) {
        expected = own / ranks * ranks;
      }
      if (own != expected) {
        return absl::InvalidArgumentError(
            absl::StrCat("feed ", outputs[f].ToString(), ": expected ", expected,
                         " rows for this worker's ", ranks, " replicas, got ", own));
      }
      shape.set_dim(0, all);
    }
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

// Returns the row of the output where a replica's shard of a split fetch begins. The output has all
// rows or, if the fetch is local, only this worker's rows.
int64_t FirstLocalRow(const BoundStep& step, const PlannedFetch& fetch, const BoundPlan& bound) {
  const Sharded* s = AsSharded(fetch.sharding);
  if (s == nullptr) return 0;
  return bound.first_rows()[s->axis] - step.plans[0]->first_rows()[s->axis];
}

// Returns the address of a replica's shard of a feed.
const std::byte* ShardOf(const BoundStep& step, const Tensor& feed, int replica, size_t index) {
  const BoundPlan& bound = *step.plans[replica];
  const Sharded* s = AsSharded(bound.plan().feeds[index].sharding);
  if (s == nullptr) return feed.raw();
  // The first row in the feed's memory.
  const int64_t first = step.local_feeds ? step.plans[0]->first_rows()[s->axis] : 0;
  return feed.raw() + (bound.first_rows()[s->axis] - first) * step.feed_row_bytes[index];
}

Tensor WithoutMemory(const Tensor& tensor) {
  return Tensor::View(tensor.dtype(), tensor.shape(), nullptr, nullptr);
}

}  // namespace

absl::Status StepRunner::CheckFeeds(const PreparedStep& step, absl::Span<const Tensor> feeds,
                                    const BoundStep* bound, bool* same) const {
  const std::vector<Output>& signature = step.signature.feeds;
  if (feeds.size() != signature.size()) {
    return absl::InvalidArgumentError(absl::StrCat("step: wrong number of feeds; expected ",
                                                   signature.size(), " (", FeedNames(signature),
                                                   "), got ", feeds.size()));
  }
  *same = bound != nullptr;
  for (size_t i = 0; i < feeds.size(); ++i) {
    const Output& feed = signature[i];
    if (feeds[i].dtype() != feed.dtype()) {
      return absl::InvalidArgumentError(absl::StrCat("feed ", feed.ToString(), ": expected dtype ",
                                                     DataTypeName(feed.dtype()), ", got ",
                                                     DataTypeName(feeds[i].dtype())));
    }
    *same = *same && feeds[i].shape() == bound->fed_shapes[i];
  }
  return absl::OkStatus();
}

absl::StatusOr<BoundStep*> StepRunner::Bind(const PreparedStep& step,
                                            absl::Span<const Tensor> feeds,
                                            const RunOptions& options) {
  if (cache_.evictions() != evictions_) [[unlikely]]
    MF_RETURN_IF_ERROR(DropEvicted());
  if (step.index >= variants_.size()) [[unlikely]]
    variants_.resize(step.index + 1);
  Variants& variants = variants_[step.index];
  const bool local_feeds = options.local_feeds && connection_.has_other_workers();
  // Fast path without allocation: the shapes are the same as in the last run.
  BoundStep* bound = variants.last;
  bool same = false;
  MF_RETURN_IF_ERROR(CheckFeeds(step, feeds, bound, &same));
  if (same && bound->local_feeds == local_feeds &&
      !bound->compiled->evicted.load(std::memory_order_relaxed) &&
      bound->compiled->replica_rows == options.replica_rows &&
      StepCache::HasStates(*bound->compiled, variables_.states())) {
    cache_.Touch(*bound->compiled);
  } else {
    MF_ASSIGN_OR_RETURN(bound, BindOther(step, variants, feeds, options, local_feeds));
  }
  for (const int v : bound->compiled->reads_first) {
    MF_RETURN_IF_ERROR(variables_.CheckReadable(v));
  }
  return bound;
}

absl::StatusOr<BoundStep*> StepRunner::BindOther(const PreparedStep& step, Variants& variants,
                                                 absl::Span<const Tensor> feeds,
                                                 const RunOptions& options, bool local_feeds) {
  std::vector<Shape> fed;
  for (const Tensor& feed : feeds) fed.push_back(feed.shape());
  std::vector<Shape> shapes = fed;
  if (local_feeds) {
    const Topology& topology = connection_.topology();
    MF_ASSIGN_OR_RETURN(shapes, GlobalShapes(step.signature.feeds, feeds, options.replica_rows,
                                             connection_.local_ranks(), topology.world_size()));
  }
  MF_ASSIGN_OR_RETURN(std::shared_ptr<CompiledStep> compiled,
                      cache_.Get({step, shapes, options.replica_rows, variables_.states()}));
  // Compiling the step may have evicted other steps.
  MF_RETURN_IF_ERROR(DropEvicted());
  auto found = absl::c_find_if(variants.bound,
                               [&](const auto& bound) { return bound->compiled == compiled; });
  if (found == variants.bound.end()) {
    MF_ASSIGN_OR_RETURN(std::unique_ptr<BoundStep> made, MakeBound(std::move(compiled)));
    found = variants.bound.insert(variants.bound.end(), std::move(made));
  }
  BoundStep& bound = **found;
  bound.fed_shapes = std::move(fed);
  bound.local_feeds = local_feeds;
  return variants.last = &bound;
}

absl::StatusOr<std::unique_ptr<BoundStep>> StepRunner::MakeBound(
    std::shared_ptr<CompiledStep> compiled) {
  auto bound = std::make_unique<BoundStep>();
  bound->compiled = std::move(compiled);
  bound->replicas = replicas_;
  MF_RETURN_IF_ERROR(Rebind(*bound));
  const Plan& plan = bound->plans[0]->plan();
  for (const PlannedFeed& feed : plan.feeds) {
    const int64_t bytes =
        feed.global_shape.num_elements_from(1) * static_cast<int64_t>(DataTypeSize(feed.dtype));
    bound->feed_row_bytes.push_back(AsSharded(feed.sharding) != nullptr ? bytes : 0);
  }
  for (const PlannedFetch& fetch : plan.fetches) {
    bound->output_pools.emplace_back();
    if (IsPerReplica(fetch.sharding)) {
      bound->outputs.emplace_back();
      continue;
    }
    if (fetch.global_shape.rank() == 0 && Tensor::FitsInline(fetch.dtype)) {
      bound->outputs.push_back(Tensor::InlineScalar(fetch.dtype));
      continue;
    }
    Shape shape = fetch.global_shape;
    if (const Sharded* s = AsSharded(fetch.sharding)) {
      // A fetch that is not gathered has only this worker's rows; a single worker has all rows.
      int64_t rows = 0;
      for (const auto& replica : *replicas_) {
        rows += bound->compiled->rows[s->axis][replica->rank()];
      }
      shape.set_dim(s->dim, rows * s->factor);
    }
    // MakeOutputs provides the memory for each run.
    bound->outputs.push_back(Tensor::View(fetch.dtype, shape, nullptr, nullptr));
  }
  bound->statuses.resize(replicas_->size());
  return bound;
}

absl::Status StepRunner::Rebind(BoundStep& bound) {
  const CompiledStep& compiled = *bound.compiled;
  if (std::equal(bound.plans.begin(), bound.plans.end(), compiled.plans.begin(),
                 compiled.plans.end(),
                 [](const auto& own, const auto& plan) { return own->shared_plan() == plan; })) {
    return absl::OkStatus();
  }
  std::vector<std::unique_ptr<BoundPlan>> plans(replicas_->size());
  for (int r = 0; r < replicas_->size(); ++r) {
    MF_ASSIGN_OR_RETURN(plans[r], (*replicas_)[r].Bind(compiled.plans[r], compiled.rows));
    std::vector<int> provided;
    for (size_t i = 0; i < compiled.plans[r]->fetches.size(); ++i) {
      if (Provides(*compiled.plans[r], r, i)) provided.push_back(static_cast<int>(i));
    }
    MF_RETURN_IF_ERROR(plans[r]->BringToHost(provided));
  }
  bound.plans = std::move(plans);
  bound.checks_deadline = std::ranges::any_of(bound.plans, &BoundPlan::checks_deadline);
  return absl::OkStatus();
}

absl::Status StepRunner::DropEvicted() {
  // Read the counter first: the next call handles steps evicted in the meantime.
  const uint64_t evictions = cache_.evictions();
  if (evictions == evictions_) return absl::OkStatus();
  const auto is_evicted = [](const BoundStep& bound) {
    return bound.compiled->evicted.load(std::memory_order_relaxed);
  };
  // A step that still runs on its device, or has updates in flight, needs its memory.
  if (unfinished_ != nullptr && is_evicted(*unfinished_)) MF_RETURN_IF_ERROR(FinishUpdates());
  const MonotonicTime deadline = MonotonicTime::Now() + options_.step_timeout;
  for (const auto& replica : *replicas_)
    MF_RETURN_IF_ERROR(replica->device().Synchronize(deadline));
  for (Variants& variants : variants_) {
    std::erase_if(variants.bound, [&](const std::unique_ptr<BoundStep>& bound) {
      if (!is_evicted(*bound)) return false;
      if (last_run_ == bound.get()) ForgetLastRun();
      if (variants.last == bound.get()) variants.last = nullptr;
      return true;
    });
  }
  // Steps of many sizes fragment the heap, so most of what they free would stay with the process.
  if (evictions / kEvictionsPerTrim != evictions_ / kEvictionsPerTrim) malloc_trim(0);
  evictions_ = evictions;
  return absl::OkStatus();
}

// Gives each output memory that no caller holds a reference to.
absl::Status StepRunner::MakeOutputs(BoundStep& bound) {
  for (size_t i = 0; i < bound.outputs.size(); ++i) {
    Tensor& output = bound.outputs[i];
    if (!output.has_value() || output.is_inline()) continue;
    const size_t bytes = output.bytes();
    // Releases the buffer unless the caller holds a reference. Keeps the type for the next run, in
    // case the allocation fails.
    output = WithoutMemory(output);
    MF_ASSIGN_OR_RETURN(std::shared_ptr<Buffer> buffer, bound.output_pools[i].Take(bytes));
    std::byte* const data = buffer->data();
    output = Tensor::View(output.dtype(), output.shape(), data, std::move(buffer));
  }
  return absl::OkStatus();
}

void StepRunner::FreeOutputs(BoundStep& bound) {
  for (Tensor& output : bound.outputs) {
    if (output.has_value() && !output.is_inline()) output = WithoutMemory(output);
  }
  for (BufferPool& pool : bound.output_pools) pool = BufferPool();
}

bool StepRunner::Provides(const Plan& plan, int replica, size_t i) {
  const PlannedFetch& fetch = plan.fetches[i];
  if (IsPerReplica(fetch.sharding)) return false;
  // A replicated value is taken from the first replica.
  return AsSharded(fetch.sharding) != nullptr || replica == 0;
}

void StepRunner::CopyFetches(BoundStep& bound, int replica) {
  const BoundPlan& plan = *bound.plans[replica];
  for (size_t i = 0; i < bound.outputs.size(); ++i) {
    if (!Provides(plan.plan(), replica, i)) continue;
    const PlannedFetch& fetch = plan.plan().fetches[i];
    const std::byte* from = plan.fetched(static_cast<int>(i));
    std::byte* to = bound.outputs[i].raw();
    ForEachPiece(fetch, bound.outputs[i].shape(), FirstLocalRow(bound, fetch, plan),
                 [&](int64_t local, int64_t global, int64_t bytes) {
                   std::memcpy(to + global, from + local, bytes);
                 });
  }
}

// Prefetches only feeds with the shapes of this step. Other feeds are copied during their own Run.
void StepRunner::SetNextFeeds(BoundStep& bound, absl::Span<const Tensor> feeds) const {
  bound.next_feeds.clear();
  bound.announces_next = false;
  if (feeds.size() != bound.fed_shapes.size()) return;
  for (size_t f = 0; f < feeds.size(); ++f) {
    if (feeds[f].dtype() != bound.plans[0]->plan().feeds[f].dtype ||
        feeds[f].shape() != bound.fed_shapes[f]) {
      return;
    }
  }
  bound.next_feeds.assign(feeds.begin(), feeds.end());
  bound.announces_next = true;
}

absl::Status StepRunner::Run(BoundStep& bound, absl::Span<const Tensor> feeds,
                             const RunOptions& options) {
  log_.last_run.store(nullptr, std::memory_order_relaxed);
  // Keeps output memory for only one step, not for every batch size.
  if (last_run_ != nullptr && last_run_ != &bound) FreeOutputs(*last_run_);
  last_run_ = &bound;
  if (!reads_host_memory_) SetNextFeeds(bound, options.next_feeds);
  MF_RETURN_IF_ERROR(RunBound(bound, feeds));
  variables_.MarkSet(bound.compiled->writes);
  log_.last_run.store(&bound, std::memory_order_relaxed);
  return absl::OkStatus();
}

absl::Status StepRunner::RunBound(BoundStep& bound, absl::Span<const Tensor> feeds) {
  if (unfinished_ != nullptr) {
    if (unfinished_ != &bound) MF_RETURN_IF_ERROR(FinishUpdates());
    unfinished_ = nullptr;  // this run finishes them
  }
  const MonotonicTime deadline = bound.checks_deadline
                                     ? MonotonicTime::Now() + options_.step_timeout
                                     : MonotonicTime::InfiniteFuture();
  const uint64_t step = log_.counters.Next(!bound.compiled->writes.empty());
  const RunProgress::Run run(connection_.progress(),
                             log_.counters.writing.load(std::memory_order_relaxed));
  if (connection_.has_other_workers()) MF_RETURN_IF_ERROR(run_failpoint.Pass());
  MF_RETURN_IF_ERROR(MakeOutputs(bound));
  // If any arena moves, all replicas re-record their steps, because replayed collectives do not
  // match the collectives of a step that is not replayed.
  if (std::ranges::any_of(bound.plans, &BoundPlan::moves_arena)) {
    ++arena_moves_;
  }
  if (std::exchange(bound.arena_moves, arena_moves_) != arena_moves_) {
    for (const auto& plan : bound.plans) plan->DropRecording();
  }
  if (log_.tracer != nullptr) bound.spans.resize(replicas_->size());
  replicas_->RunThreads([&](int r, int thread) {
    if (thread > 0) return bound.plans[r]->RunOtherThread(thread, deadline);
    bound.statuses[r] =
        CatchOutOfMemory([&] { return RunReplica(bound, r, feeds, step, deadline); });
    // If this replica did not complete the step, the other replicas would wait for its collectives.
    if (!bound.statuses[r].ok() && (*replicas_)[r].communicator() != nullptr &&
        !bound.plans[r]->completed()) {
      (*replicas_)[r].communicator()->Abort(bound.statuses[r]);
    }
  });
  for (const absl::Status& status : bound.statuses) {
    if (status.ok()) continue;
    const bool lost = std::ranges::any_of(bound.plans, &BoundPlan::lost_late);
    return FailRun(bound, step, status, lost);
  }
  if (bound.plans[0]->unfinished()) unfinished_ = &bound;
  if (log_.tracer != nullptr) AddTrace(bound, step);
  return absl::OkStatus();
}

absl::Status StepRunner::RunReplica(BoundStep& bound, int r, absl::Span<const Tensor> feeds,
                                    uint64_t step, MonotonicTime deadline) {
  BoundPlan& plan = *bound.plans[r];
  const bool writes = !bound.compiled->writes.empty();
  for (size_t f = 0; f < feeds.size(); ++f) {
    plan.SetFeed(static_cast<int>(f), ShardOf(bound, feeds[f], r, f));
  }
  if (bound.announces_next) {
    absl::InlinedVector<const std::byte*, 8> shards;
    for (size_t f = 0; f < bound.next_feeds.size(); ++f) {
      shards.push_back(ShardOf(bound, bound.next_feeds[f], r, f));
    }
    plan.SetNext(StreamOfRun(step + 1, writes), shards);
  }
  const uint64_t drawn_from = StreamOfRun(step, writes);
  if (log_.tracer != nullptr) {
    MF_RETURN_IF_ERROR(plan.RunTraced(drawn_from, options_.seed, deadline, &bound.spans[r]));
  } else {
    MF_RETURN_IF_ERROR(plan.Run(drawn_from, options_.seed, deadline));
  }
  CopyFetches(bound, r);
  return absl::OkStatus();
}

absl::Status StepRunner::FailRun(BoundStep& bound, uint64_t step, const absl::Status& status,
                                 bool lost_updates) {
  // After a failure, the prefetched tensors may be freed before the next run.
  for (const auto& plan : bound.plans) {
    plan->ForgetNext();
    plan->ForgetLate();
  }
  const bool wrote = std::ranges::any_of(bound.plans, &BoundPlan::wrote);
  // If all replicas completed the step, none of them is blocked in a collective.
  const bool completed = std::ranges::all_of(bound.plans, &BoundPlan::completed);
  const absl::Status cause =
      completed && connection_.Check().ok()
          ? status
          : connection_.Break(status, step, MonotonicTime::Now() + options_.report_timeout);
  if (!bound.compiled->writes.empty() && (wrote || lost_updates)) {
    variables_.MarkIndeterminate(bound.compiled->writes, cause);
  }
  return cause;
}

absl::Status StepRunner::FinishUpdates() {
  if (unfinished_ == nullptr) return absl::OkStatus();
  BoundStep& bound = *std::exchange(unfinished_, nullptr);
  replicas_->Run([&](int r) {
    bound.statuses[r] = CatchOutOfMemory([&] { return bound.plans[r]->FinishLate(); });
    if (!bound.statuses[r].ok()) (*replicas_)[r].communicator()->Abort(bound.statuses[r]);
  });
  for (const absl::Status& status : bound.statuses) {
    if (status.ok()) continue;
    return FailRun(bound, log_.counters.writing - 1, status, /*lost_updates=*/true);
  }
  if (log_.tracer != nullptr) log_.tracer->EndFlights(absl::GetCurrentTimeNanos());
  return absl::OkStatus();
}

void StepRunner::Disconnect() {
  for (const Variants& variants : variants_) {
    for (const auto& bound : variants.bound) {
      for (const auto& plan : bound->plans) plan->DropRecording();
    }
  }
  if (unfinished_ == nullptr) return;
  const BoundStep& lost = *std::exchange(unfinished_, nullptr);
  for (const auto& plan : lost.plans) plan->ForgetLate();
  variables_.MarkIndeterminate(lost.compiled->writes, connection_.failure());
}

int64_t StepRunner::BytesWith(const BoundStep& bound) const {
  int64_t bytes = bound.compiled->fetch_bytes;
  for (int r = 0; r < replicas_->size(); ++r) {
    bytes += std::max((*replicas_)[r].arena_bytes(), bound.plans[r]->plan().arena_bytes);
  }
  return bytes;
}

void StepRunner::FreeMemory() {
  for (const auto& replica : *replicas_) replica->FreeArena();
  if (last_run_ != nullptr) {
    FreeOutputs(*last_run_);
    ForgetLastRun();
  }
  reserved_bytes_ = 0;
}

void StepRunner::ForgetLastRun() {
  const BoundStep* last = std::exchange(last_run_, nullptr);
  log_.last_run.compare_exchange_strong(last, nullptr);
}

void StepRunner::AddTrace(const BoundStep& bound, uint64_t step) {
  for (int r = 0; r < replicas_->size(); ++r) {
    const Replica& replica = (*replicas_)[r];
    std::string process =
        absl::StrCat("replica ", replica.rank(), " (", replica.device().name(), ")");
    if (connection_.has_other_workers()) {
      process = absl::StrCat("worker ", connection_.worker(), ", ", process);
    }
    log_.tracer->AddStep(bound.plans[r]->plan(), step, replica.rank(), process, bound.spans[r]);
  }
  log_.tracer->AddFormsMade(bound.spans[0], (*replicas_)[0].rank(), variables_.forms()->num_made());
}

absl::StatusOr<std::vector<Tensor>> ValuesPerReplica(const BoundStep& last_run, int fetch) {
  std::vector<Tensor> values;
  for (int r = 0; r < last_run.replicas->size(); ++r) {
    const BoundPlan& plan = *last_run.plans[r];
    const PlannedFetch& planned = plan.plan().fetches[fetch];
    MF_ASSIGN_OR_RETURN(Tensor value, Tensor::Allocate(planned.dtype, planned.local_shape));
    if (!IsFed(plan.plan(), planned.operand)) {
      MF_RETURN_IF_ERROR((*last_run.replicas)[r].device().CopyOut(plan.fetch_address(fetch),
                                                                  value.raw(), value.bytes()));
    } else {
      // The fed tensor may be freed by now, so read the value from the copy in the output.
      const Tensor& output = last_run.outputs[fetch];
      ForEachPiece(planned, output.shape(), FirstLocalRow(last_run, planned, plan),
                   [&](int64_t local, int64_t global, int64_t bytes) {
                     std::memcpy(value.raw() + local, output.raw() + global, bytes);
                   });
    }
    values.push_back(std::move(value));
  }
  return values;
}

}  // namespace mirrorflow
