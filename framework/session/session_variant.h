// SPDX-License-Identifier: Apache-2.0
//
// What a session keeps of its steps: what was asked for, and what was compiled of it for each set
// of feed shapes and shares. For session*.cc only.
#ifndef MIRRORFLOW_FRAMEWORK_SESSION_SESSION_VARIANT_H_
#define MIRRORFLOW_FRAMEWORK_SESSION_SESSION_VARIANT_H_

#include <memory>
#include <utility>
#include <vector>

#include "framework/session/session.h"

namespace mirrorflow {

// A step as compiled for one set of feed shapes and shares.
struct Session::Variant {
  std::vector<Shape> shapes;      // global
  std::vector<Shape> fed_shapes;  // as they were fed last: of this worker's rows, if `local_feeds`
  bool local_feeds = false;
  // The states of variables that it depends on (VarIsInitializedOp): (variable, is initialised).
  std::vector<std::pair<int, bool>> states;
  std::vector<int64_t> replica_rows;       // as asked for; empty: even
  std::vector<std::vector<int64_t>> rows;  // by axis and rank
  std::shared_ptr<const Program> program;
  std::vector<std::unique_ptr<BoundPlan>> bound;  // by local replica
  int tuning_version = 0;                         // of the session's table, when these were made
  bool agreed = false;                            // with the other workers, in this incarnation
  std::vector<absl::Status> statuses;
  std::vector<int64_t> feed_row_bytes;  // by feed: what a row of its axis takes; 0: not sharded
  std::vector<Tensor> next_feeds;       // of the Run after, if they are known; else empty
  std::vector<Tensor> outputs;
  std::vector<char> output_is_view;
  std::vector<int> reads_first;  // variables that must have a value before
  std::vector<int> writes;
  std::vector<std::vector<TraceSpan>> spans;
};

struct Step::State {
  Session* session = nullptr;
  StepSignature signature;
  std::vector<std::unique_ptr<Session::Variant>> variants;
  Session::Variant* last = nullptr;  // the last to run without an error
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_SESSION_SESSION_VARIANT_H_
