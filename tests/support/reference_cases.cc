// SPDX-License-Identifier: Apache-2.0
#include "tests/support/reference_cases.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "framework/core/status.h"
#include "tests/support/literals.h"

namespace mirrorflow {

double ReferenceCase::Number(const std::string& attribute, double otherwise) const {
  const auto found = attributes.find(attribute);
  if (found == attributes.end()) return otherwise;
  if (found->second == "true" || found->second == "false") return found->second == "true";
  double value = 0;
  if (absl::SimpleAtod(found->second, &value)) return value;
  std::fprintf(stderr, "%s: attribute %s is not a number\n", where.c_str(), attribute.c_str());
  std::abort();
}

std::string ReferenceCase::Text(const std::string& attribute, const std::string& otherwise) const {
  const auto found = attributes.find(attribute);
  return found == attributes.end() ? otherwise : found->second;
}

absl::StatusOr<std::vector<ReferenceCase>> ReadReferenceCases(const std::string& path) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(absl::StrCat(path, ": cannot be opened"));
  const std::string name(path.substr(path.rfind('/') + 1));
  std::vector<ReferenceCase> cases;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.empty() || line[0] == '#') continue;
    const std::pair<std::string, std::string> parts = absl::StrSplit(line, absl::MaxSplits(' ', 1));
    if (parts.first == "case") {
      ReferenceCase& next = cases.emplace_back();
      next.where = absl::StrCat(name, ":", number, ": ", parts.second);
      for (absl::string_view word : absl::StrSplit(parts.second, ' ')) {
        const std::pair<std::string, std::string> attribute = absl::StrSplit(word, '=');
        if (next.name.empty()) {
          next.name = attribute.first;
        } else {
          next.attributes.insert(attribute);
        }
      }
      continue;
    }
    absl::StatusOr<Tensor> value = ParseTensorLiteral(parts.second);
    if (!value.ok() || cases.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          name, ":", number, ": malformed line; expected a case, or a key and a tensor"));
    }
    cases.back().tensors[parts.first].push_back(*std::move(value));
  }
  return cases;
}

}  // namespace mirrorflow
