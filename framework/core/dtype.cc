// SPDX-License-Identifier: Apache-2.0
#include "framework/core/dtype.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace mirrorflow {
namespace {

enum Kind { kFloating, kSigned, kUnsigned, kOther };

struct Row {
  DataType dtype;
  const char* name;
  size_t size;
  Kind kind;
};

constexpr Row kRows[] = {
    {DT_FLOAT, "float", 4, kFloating},         {DT_DOUBLE, "double", 8, kFloating},
    {DT_INT32, "int32", 4, kSigned},           {DT_UINT8, "uint8", 1, kUnsigned},
    {DT_INT16, "int16", 2, kSigned},           {DT_INT8, "int8", 1, kSigned},
    {DT_STRING, "string", 0, kOther},          {DT_COMPLEX64, "complex64", 8, kOther},
    {DT_INT64, "int64", 8, kSigned},           {DT_BOOL, "bool", 1, kOther},
    {DT_BFLOAT16, "bfloat16", 2, kFloating},   {DT_UINT16, "uint16", 2, kUnsigned},
    {DT_COMPLEX128, "complex128", 16, kOther}, {DT_HALF, "half", 2, kFloating},
    {DT_RESOURCE, "resource", 0, kOther},      {DT_VARIANT, "variant", 0, kOther},
    {DT_UINT32, "uint32", 4, kUnsigned},       {DT_UINT64, "uint64", 8, kUnsigned},
};

const Row* Find(DataType dtype) {
  for (const Row& row : kRows) {
    if (row.dtype == dtype) return &row;
  }
  return nullptr;
}

}  // namespace

absl::string_view DataTypeName(DataType dtype) {
  const Row* row = Find(dtype);
  return row != nullptr ? row->name : "invalid";
}

absl::StatusOr<DataType> ParseDataType(absl::string_view name) {
  for (const Row& row : kRows) {
    if (name == row.name) return row.dtype;
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown dtype '", name, "'"));
}

bool IsKnownDataType(int number) { return Find(static_cast<DataType>(number)) != nullptr; }

size_t DataTypeSize(DataType dtype) {
  const Row* row = Find(dtype);
  return row != nullptr ? row->size : 0;
}

bool IsFloating(DataType dtype) {
  const Row* row = Find(dtype);
  return row != nullptr && row->kind == kFloating;
}

bool IsInteger(DataType dtype) {
  const Row* row = Find(dtype);
  return row != nullptr && (row->kind == kSigned || row->kind == kUnsigned);
}

}  // namespace mirrorflow
