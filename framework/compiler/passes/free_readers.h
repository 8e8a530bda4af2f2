// SPDX-License-Identifier: Apache-2.0
//
// FreeReaders: takes off the control edges that OrderVariables has put between the users of a read
// and the writes, so that these users can become parts of other nodes; OrderVariables then orders
// what they have become. The order of writes, and of collectives, stays.
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_PASSES_FREE_READERS_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_PASSES_FREE_READERS_H_

#include "framework/compiler/pass.h"

namespace mirrorflow {

class FreeReaders final : public Pass {
 public:
  absl::string_view name() const override { return "free_readers"; }
  Facts needs() const override { return kVariablesOrdered | kCollectivesOrdered; }
  Facts gives() const override { return kReadersFree; }
  Facts ends() const override { return kVariablesOrdered; }
  absl::StatusOr<bool> Run(Compilation& c) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_PASSES_FREE_READERS_H_
