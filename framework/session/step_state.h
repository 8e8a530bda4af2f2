// SPDX-License-Identifier: Apache-2.0
//
// StepState: a prepared step, with one variant for each set of feed shapes and shares for which it
// was compiled. Private to session*.cc.
#ifndef MIRRORFLOW_FRAMEWORK_SESSION_STEP_STATE_H_
#define MIRRORFLOW_FRAMEWORK_SESSION_STEP_STATE_H_

#include <memory>
#include <utility>
#include <vector>

#include "framework/core/buffer.h"
#include "framework/session/session_state.h"

namespace mirrorflow {

// A step, compiled for one set of feed shapes and shares.
struct StepVariant {
  std::vector<Shape> shapes;      // global
  std::vector<Shape> fed_shapes;  // of the last feeds: only this worker's rows if `local_feeds`
  bool local_feeds = false;
  // The variable states on which it depends (VarIsInitializedOp): (variable, is initialised).
  std::vector<std::pair<int, bool>> states;
  std::vector<int64_t> replica_rows;       // as requested; empty: even
  std::vector<std::vector<int64_t>> rows;  // by axis and rank
  std::shared_ptr<const Program> program;
  std::vector<std::unique_ptr<BoundPlan>> bound;  // by local replica
  int tuning_version = 0;                         // of the tuning table that `bound` used
  uint64_t arena_moves = 0;                       // before the recordings of `bound`
  bool agreed = false;                            // with the other workers, in this incarnation
  std::vector<absl::Status> statuses;
  std::vector<int64_t> feed_row_bytes;   // by feed: bytes of one row; 0: not sharded
  std::vector<Tensor> next_feeds;        // of the next Run
  bool announces_next = false;           // the next Run is known
  std::vector<Tensor> outputs;           // of the last run; no value where replicas differ
  std::vector<BufferPool> output_pools;  // by output; unused for inline scalars
  std::vector<int> reads_first;          // variables that must have a value before the step
  std::vector<int> writes;
  std::vector<std::vector<TraceSpan>> spans;
};

struct StepState {
  SessionState* session = nullptr;  // null once the session is gone
  StepSignature signature;
  std::vector<std::unique_ptr<StepVariant>> variants;
  StepVariant* last = nullptr;  // the last to run without an error
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_SESSION_STEP_STATE_H_
