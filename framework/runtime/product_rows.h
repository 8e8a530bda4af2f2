// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_FRAMEWORK_RUNTIME_PRODUCT_ROWS_H_
#define MIRRORFLOW_FRAMEWORK_RUNTIME_PRODUCT_ROWS_H_

#include <cstdint>

namespace mirrorflow {

// Contiguous rows of a [*,m] and b [*,n], the factors of aᵀ · b.
struct ProductRows {
  const void* a = nullptr;
  const void* b = nullptr;
  int64_t count = 0;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_PRODUCT_ROWS_H_
