// SPDX-License-Identifier: Apache-2.0
//
// Parses a serialized tf.train.Example or rejects it. A batch of two equal Examples must repeat the
// same values.
#include <cstring>

#include "framework/core/status.h"
#include "train/formats/example.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mirrorflow;
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  const FixedLenFeature floats{.name = "f",
                               .dtype = DT_FLOAT,
                               .shape = {2},
                               .default_value = Tensor::Of<float>({2}, {1, 2})};
  const FixedLenFeature label{
      .name = "l", .dtype = DT_INT64, .default_value = Tensor::Scalar<int64_t>(7)};
  static const ExampleParser& parser = *new ExampleParser(
      *ExampleParser::Create({floats, label, VarLenFeature{.name = "i", .dtype = DT_INT64},
                              VarLenFeature{.name = "v", .dtype = DT_FLOAT},
                              FixedLenFeature{.name = "b",
                                              .dtype = DT_UINT8,
                                              .shape = {-1},
                                              .default_value = Tensor::Vector<uint8_t>({1})}}));
  static const ExampleParser& fixed = *new ExampleParser(*ExampleParser::Create({floats, label}));
  const auto tensors = parser.Parse(bytes);
  const auto batch = fixed.ParseBatch({bytes, bytes});
  MF_CHECK(tensors.ok() || tensors.status().code() == absl::StatusCode::kDataLoss);
  MF_CHECK(!tensors.ok() || batch.ok());
  if (!tensors.ok()) return 0;
  for (size_t i = 0; i < 2; ++i) {
    for (int row = 0; row < 2; ++row) {
      MF_CHECK(std::memcmp((*batch)[i].Rows(row, row + 1).raw(), (*tensors)[i].raw(),
                           (*tensors)[i].bytes()) == 0);
    }
  }
  return 0;
}
