// SPDX-License-Identifier: Apache-2.0
//
// A small registry for tests of the framework, which must not need the real ops. Together its ops
// have every kind of argument and attribute. Names are TensorFlow's where the schema is; no op
// computes anything.
#ifndef MIRRORFLOW_TESTS_SUPPORT_TEST_OPS_H_
#define MIRRORFLOW_TESTS_SUPPORT_TEST_OPS_H_

#include "absl/types/span.h"
#include "framework/graph/graph.h"
#include "framework/graph/op_registry.h"
#include "framework/graph/scope.h"

namespace mirrorflow {

void RegisterTestOps(OpRegistry& ops);

// The registry with only the test ops.
const OpRegistry& TestOps();

// Adds a node of `op`, one of the test ops. Each argument takes one of `inputs`; a list takes all
// but those that the arguments after it need. Returns output 0. A node without outputs does not
// have one, and the result serves only for its `node`.
Output Apply(const Scope& scope, absl::string_view op, absl::Span<const Output> inputs = {},
             AttrMap attrs = {});

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_TEST_OPS_H_
