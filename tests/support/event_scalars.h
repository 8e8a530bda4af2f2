// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TESTS_SUPPORT_EVENT_SCALARS_H_
#define MIRRORFLOW_TESTS_SUPPORT_EVENT_SCALARS_H_

#include <string>
#include <vector>

namespace mirrorflow {

// Returns the scalars that TensorBoard shows for the event files in a folder, in order: "STEP TAG
// VALUE". Includes values that were written twice, unless the start of a session purges them.
std::vector<std::string> EventScalars(const std::string& folder);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_EVENT_SCALARS_H_
