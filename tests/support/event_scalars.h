// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TESTS_SUPPORT_EVENT_SCALARS_H_
#define MIRRORFLOW_TESTS_SUPPORT_EVENT_SCALARS_H_

#include <string>
#include <vector>

namespace mirrorflow {

// Returns the scalars that TensorBoard shows for the event files in a folder, in order, each as
// "STEP TAG VALUE". A value that was written twice appears twice, unless the start of a session
// purges it.
std::vector<std::string> EventScalars(const std::string& folder);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_EVENT_SCALARS_H_
