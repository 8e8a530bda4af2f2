// SPDX-License-Identifier: Apache-2.0
//
// Lists the numeric options in a header: fields of structs and parameters of functions.
#ifndef MIRRORFLOW_TESTS_TRAIN_NUMBERS_HEADER_NUMBERS_H_
#define MIRRORFLOW_TESTS_TRAIN_NUMBERS_HEADER_NUMBERS_H_

#include <set>
#include <string>

namespace mirrorflow {

// Returns `Struct.field` and `Function.parameter` for each field and parameter whose type is a
// number, a duration, a layer size, or an optional or vector of those. `text` is the header's
// source. Omits private members. If one declaration has several fields, returns only the first.
std::set<std::string> NumbersOf(std::string text);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_TRAIN_NUMBERS_HEADER_NUMBERS_H_
