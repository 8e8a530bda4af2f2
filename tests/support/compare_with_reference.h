// SPDX-License-Identifier: Apache-2.0
//
// The oracle: compares the results of a program in a session with those of the reference
// interpreter.
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
  std::vector<int64_t> rows;  // per replica; empty: an even split

  std::string ToString() const;
};

// Runs two steps on a session and in the interpreter, from the session's initial values. Returns
// the first difference, or "". After each step, fetches and variables must agree up to rounding,
// and the copies of each variable bit for bit.
absl::StatusOr<std::string> CompareWithReference(const RandomProgram& program,
                                                 const ProgramSetting& setting);

// Describes the first variable whose copies are not bitwise equal, and the replica; "" if there is
// none.
absl::StatusOr<std::string> DifferenceOfCopies(const Session& session);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_COMPARE_WITH_REFERENCE_H_
