// SPDX-License-Identifier: Apache-2.0
//
// A small registry for tests of the framework, which must not need the real ops: between them these
// have every kind of argument and attribute. Names are TensorFlow's where the schema is; nothing
// here computes.
#ifndef MIRRORFLOW_TESTS_SUPPORT_TEST_OPS_H_
#define MIRRORFLOW_TESTS_SUPPORT_TEST_OPS_H_

#include "absl/types/span.h"
#include "framework/graph/graph.h"
#include "framework/graph/op_registry.h"
#include "framework/graph/scope.h"

namespace mirrorflow {

void RegisterTestOps(OpRegistry& ops);

// The registry with all test ops, and no others.
const OpRegistry& TestOps();

// Adds `op`, one of the test ops. Each argument takes one of `inputs`, a list all that the
// arguments behind it leave. Returns output 0, which a node without outputs does not have: for its
// `node`.
Output Apply(const Scope& scope, absl::string_view op, absl::Span<const Output> inputs = {},
             AttrMap attrs = {});

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_TEST_OPS_H_
