// SPDX-License-Identifier: Apache-2.0
//
// A small registry for framework tests, which must not depend on the real ops. Together its ops
// have every kind of argument and attribute. Ops with TensorFlow's schema have TensorFlow's names;
// no op computes anything.
#ifndef MIRRORFLOW_TESTS_SUPPORT_TEST_OPS_H_
#define MIRRORFLOW_TESTS_SUPPORT_TEST_OPS_H_

#include "absl/types/span.h"
#include "framework/graph/graph.h"
#include "framework/graph/op_registry.h"
#include "framework/graph/scope.h"

namespace mirrorflow {

void RegisterTestOps(OpRegistry& ops);

// Returns a registry that contains only the test ops.
const OpRegistry& TestOps();

// Adds a node with the test op `op`. Each argument takes one of `inputs`; a list takes all inputs
// except those that later arguments need. Returns output 0. If the node has no outputs, only the
// result's `node` is valid.
Output Apply(const Scope& scope, absl::string_view op, absl::Span<const Output> inputs = {},
             AttrMap attrs = {});

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_TEST_OPS_H_
