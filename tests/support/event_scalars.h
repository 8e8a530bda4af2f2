// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TESTS_SUPPORT_EVENT_SCALARS_H_
#define MIRRORFLOW_TESTS_SUPPORT_EVENT_SCALARS_H_

#include <string>
#include <vector>

namespace mirrorflow {

// The scalars that TensorBoard shows of the event files of a folder, in their order: "STEP TAG
// VALUE". Values that were written twice are there twice, unless a session's start purges them.
std::vector<std::string> EventScalars(const std::string& folder);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_EVENT_SCALARS_H_
