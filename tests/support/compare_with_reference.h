// SPDX-License-Identifier: Apache-2.0
//
// The oracle: a program must give on a session what the reference interpreter gives.
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
  std::vector<int64_t> rows;  // by replica; empty: even

  std::string ToString() const;
};

// Runs two steps both ways, from the session's initial values, and returns what differs first, or
// "". After each step fetches and variables must agree to rounding, and the copies of each variable
// bit for bit.
absl::StatusOr<std::string> CompareWithReference(const RandomProgram& program,
                                                 const ProgramSetting& setting);

// The first variable whose copies are not equal bit for bit, and where; or "".
absl::StatusOr<std::string> DifferenceOfCopies(const Session& session);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_COMPARE_WITH_REFERENCE_H_
