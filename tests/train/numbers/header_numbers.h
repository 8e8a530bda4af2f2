// SPDX-License-Identifier: Apache-2.0
//
// Lists the numbers in a header: the fields of its structs and the parameters of its functions.
#ifndef MIRRORFLOW_TESTS_TRAIN_NUMBERS_HEADER_NUMBERS_H_
#define MIRRORFLOW_TESTS_TRAIN_NUMBERS_HEADER_NUMBERS_H_

#include <set>
#include <string>

namespace mirrorflow {

// Returns `Struct.field` and `Function.parameter` for each field and parameter whose type is a
// number, a duration, a layer size, or an optional or vector of those. `text` is the header. Omits
// private members. Of several fields in one declaration, returns only the first.
std::set<std::string> NumbersOf(std::string text);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_TRAIN_NUMBERS_HEADER_NUMBERS_H_
