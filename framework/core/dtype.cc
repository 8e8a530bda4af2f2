// SPDX-License-Identifier: Apache-2.0
#include "framework/core/dtype.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace mirrorflow {
namespace {

struct Row {
  DataType dtype;
  const char* name;
  size_t size;
  bool is_floating;
  bool is_integer;
};

constexpr Row kRows[] = {
    {DT_FLOAT, "float", 4, true, false},
    {DT_DOUBLE, "double", 8, true, false},
    {DT_INT32, "int32", 4, false, true},
    {DT_UINT8, "uint8", 1, false, true},
    {DT_INT16, "int16", 2, false, true},
    {DT_INT8, "int8", 1, false, true},
    {DT_STRING, "string", 0, false, false},
    {DT_COMPLEX64, "complex64", 8, false, false},
    {DT_INT64, "int64", 8, false, true},
    {DT_BOOL, "bool", 1, false, false},
    {DT_BFLOAT16, "bfloat16", 2, true, false},
    {DT_UINT16, "uint16", 2, false, true},
    {DT_COMPLEX128, "complex128", 16, false, false},
    {DT_HALF, "half", 2, true, false},
    {DT_RESOURCE, "resource", 0, false, false},
    {DT_VARIANT, "variant", 0, false, false},
    {DT_UINT32, "uint32", 4, false, true},
    {DT_UINT64, "uint64", 8, false, true},
};

constexpr Row kInvalid = {DT_INVALID, "invalid", 0, false, false};

// Returns kInvalid for an unknown dtype.
const Row& Find(DataType dtype) {
  for (const Row& row : kRows) {
    if (row.dtype == dtype) return row;
  }
  return kInvalid;
}

}  // namespace

absl::string_view DataTypeName(DataType dtype) { return Find(dtype).name; }

absl::StatusOr<DataType> ParseDataType(absl::string_view name) {
  for (const Row& row : kRows) {
    if (name == row.name) return row.dtype;
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown dtype '", name, "'"));
}

bool IsKnownDataType(int number) { return Find(static_cast<DataType>(number)).dtype != DT_INVALID; }

size_t DataTypeSize(DataType dtype) { return Find(dtype).size; }

bool IsFloating(DataType dtype) { return Find(dtype).is_floating; }
bool IsInteger(DataType dtype) { return Find(dtype).is_integer; }

}  // namespace mirrorflow
