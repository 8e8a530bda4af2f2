// SPDX-License-Identifier: Apache-2.0
//
// The oracle: runs a program in a session and in the reference interpreter, and compares the
// results.
#ifndef MIRRORFLOW_TESTS_SUPPORT_COMPARE_WITH_REFERENCE_H_
#define MIRRORFLOW_TESTS_SUPPORT_COMPARE_WITH_REFERENCE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/session/session.h"
#include "tests/support/random_graph.h"
#include "tests/support/test_session.h"

namespace mirrorflow {

// One way to run a program.
struct ProgramSetting {
  TestSessionOptions session;
  std::vector<int64_t> rows;  // per replica; if empty, an even split

  std::string ToString() const;
};

// Runs two steps in a session and in the interpreter, both starting from the session's initial
// values. Returns the first difference, or "". After each step, fetches and variables must agree up
// to rounding, and the copies of each variable must agree bit for bit.
absl::StatusOr<std::string> CompareWithReference(const RandomProgram& program,
                                                 const ProgramSetting& setting);

// Returns a text that names the first variable with copies that are not bitwise equal, and the
// replica. Returns "" if all copies are equal.
absl::StatusOr<std::string> DifferenceOfCopies(const Session& session);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_COMPARE_WITH_REFERENCE_H_
