// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TESTS_SUPPORT_SIZES_H_
#define MIRRORFLOW_TESTS_SUPPORT_SIZES_H_

#include <vector>

namespace mirrorflow {

// Returns the sizes up to the limit in an environment variable, or all of them if it is unset.
// .bazelrc sets limits for the sanitizers.
std::vector<int> SizesUpTo(const char* variable, std::vector<int> sizes);

// Returns the replica counts on which to compare results with Keras. Three replicas split most
// batches unevenly.
inline std::vector<int> KerasReplicas() { return SizesUpTo("MIRRORFLOW_KERAS_REPLICAS", {1, 3}); }

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_SIZES_H_
