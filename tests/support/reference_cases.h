// SPDX-License-Identifier: Apache-2.0
//
// Reads cases of losses and metrics in the format of tests/references/README.md. A case has a name,
// attributes, and lines that each hold a key and a tensor.
#ifndef MIRRORFLOW_TESTS_SUPPORT_REFERENCE_CASES_H_
#define MIRRORFLOW_TESTS_SUPPORT_REFERENCE_CASES_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/core/tensor.h"

namespace mirrorflow {

struct ReferenceCase {
  std::string where;  // `losses.txt:12: huber delta=2.0`
  std::string name;
  std::map<std::string, std::string> attributes;
  // All tensors with this key, in order.
  std::map<std::string, std::vector<Tensor>> tensors;

  bool has(const std::string& attribute) const { return attributes.count(attribute) > 0; }
  // Returns the value of an attribute, or `otherwise`. Terminates the process if the value is not a
  // number.
  double Number(const std::string& attribute, double otherwise) const;
  std::string Text(const std::string& attribute, const std::string& otherwise) const;
};

// Reads cases. Returns InvalidArgument with the file and line of the first error.
absl::StatusOr<std::vector<ReferenceCase>> ReadReferenceCases(const std::string& path);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_REFERENCE_CASES_H_
