// SPDX-License-Identifier: Apache-2.0
//
// DropReaderEdges: removes the control edges that OrderVariables added from the users of reads to
// writes, so that these users can be fused into other nodes. OrderVariables then runs again and
// orders the fused nodes. The order of writes and of collectives is unchanged.
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_PASSES_DROP_READER_EDGES_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_PASSES_DROP_READER_EDGES_H_

#include "framework/compiler/pass.h"

namespace mirrorflow {

class DropReaderEdges final : public Pass {
 public:
  absl::string_view name() const override { return "drop_reader_edges"; }
  Facts needs() const override { return kVariablesOrdered | kCollectivesOrdered; }
  Facts gives() const override { return kReadersFree; }
  Facts ends() const override { return kVariablesOrdered; }
  absl::StatusOr<bool> Run(Compilation& c) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_PASSES_DROP_READER_EDGES_H_
