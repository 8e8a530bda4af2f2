// SPDX-License-Identifier: Apache-2.0
//
// Pass and Pipeline: the first half of the compiler is a list of passes over a Compilation. The
// order is written in one place (distribute/pipeline.cc) and checked: each pass says which facts it
// needs and which it gives.
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_PASS_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_PASS_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/compiler/compilation.h"

namespace mirrorflow {

enum Fact : uint32_t {
  // Only what feeds, fetches and targets need is in the graph.
  kPruned = 1u << 0,
  // What branches and loops run are bodies, without variables.
  kBodiesMade = 1u << 1,
  // Every value has a fully defined global shape; shape operands are constant.
  kShapesKnown = 1u << 2,
  // No value is a list of tensors.
  kListsLowered = 1u << 3,
  // No two nodes compute the same: they would be sent twice.
  kDuplicatesMerged = 1u << 4,
  // The ops for which a sharding is chosen are those that will run, or parts of them.
  kReadyToShard = 1u << 5,
  // Every value has a sharding.
  kSharded = 1u << 6,
  // Every use gets the sharding that it needs.
  kCollectivesInserted = 1u << 7,
  // Every value has the dtype in which it is computed and sent.
  kDtypesFinal = 1u << 8,
  // Updates that reduce their gradient themselves are marked; no all-reduce is made for them.
  kUpdatesReduce = 1u << 9,
  // Each all-reduce carries all that it will carry.
  kBucketed = 1u << 10,
  // Layers are as few products as devices have kernels for; what is left are single operations.
  kLayersFused = 1u << 11,
  // Reads and writes of each variable are ordered by edges.
  kVariablesOrdered = 1u << 12,
  // Compilation::collectives is complete.
  kCollectivesOrdered = 1u << 13,
};
using Facts = uint32_t;

class Pass {
 public:
  virtual ~Pass() = default;
  virtual absl::string_view name() const = 0;
  virtual Facts needs() const { return 0; }  // what must hold before
  virtual Facts gives() const { return 0; }  // what holds afterwards
  // The program means the same without it: CompileOptions::disabled_passes may name it.
  virtual bool optional() const { return false; }
  // Runs itself on the functions of branches and loops, because what it does around them depends on
  // what it finds in them. For other passes the pipeline does it.
  virtual bool enters_bodies() const { return false; }
  // Returns whether anything changed. After an error the compilation is half rewritten: drop it.
  virtual absl::StatusOr<bool> Run(Compilation& c) = 0;
};

class Pipeline {
 public:
  // Starts a named group, for printing.
  void Phase(absl::string_view name);
  template <typename P, typename... Args>
  void Add(Args&&... args) {
    Append(std::make_unique<P>(std::forward<Args>(args)...), AddStage(/*max_rounds=*/1));
  }
  // The passes one after the other, again and again until none changes anything; an error if that
  // takes more than `max_rounds` rounds.
  template <typename... P>
  void AddUntilStable(int max_rounds) {
    Stage& stage = AddStage(max_rounds);
    (Append(std::make_unique<P>(), stage), ...);
  }

  // Internal if the facts do not work out, InvalidArgument if a pass to be left out does not exist;
  // other errors are the passes' own.
  absl::Status Run(Compilation& c) const;

  // The names of the passes that may be left out, in order.
  std::vector<std::string> OptionalPasses() const;
  // `phase: pass, pass\n…`, for the golden test of the order.
  std::string ToString() const;

 private:
  // What runs once, or until stable.
  struct Stage {
    std::string phase;
    std::vector<std::unique_ptr<Pass>> passes;
    int max_rounds;
  };
  Stage& AddStage(int max_rounds);
  absl::Status CheckNames(const CompileOptions& options) const;
  static void Append(std::unique_ptr<Pass> pass, Stage& stage);
  static absl::StatusOr<bool> RunPass(Pass& pass, Compilation& c);
  static absl::StatusOr<bool> RunOnAll(Pass& pass, Compilation& c);

  std::vector<Stage> stages_;
  std::string phase_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_PASS_H_
