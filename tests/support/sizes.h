// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TESTS_SUPPORT_SIZES_H_
#define MIRRORFLOW_TESTS_SUPPORT_SIZES_H_

#include <vector>

namespace mirrorflow {

// Returns the sizes up to the value of an environment variable, or all sizes if it is not set.
// Sanitizers set such limits (.bazelrc).
std::vector<int> SizesUpTo(const char* variable, std::vector<int> sizes);

// Returns the numbers of replicas on which results are compared with those of Keras. Three replicas
// divide most batches unevenly.
inline std::vector<int> KerasReplicas() { return SizesUpTo("MIRRORFLOW_KERAS_REPLICAS", {1, 3}); }

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_SIZES_H_
