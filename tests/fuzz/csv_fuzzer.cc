// SPDX-License-Identifier: Apache-2.0
//
// Reads a CSV file or rejects it. The first byte selects the options. The result must not depend on
// the number of threads.
#include "framework/core/status.h"
#include "tests/fuzz/in_memory_file.h"
#include "train/formats/csv.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mirrorflow;
  if (size == 0) return 0;
  const unsigned choice = *data;
  const InMemoryFile file(data + 1, size - 1);
  CsvOptions options{.header = (choice & 1) != 0,
                     .delimiter = (choice & 2) != 0 ? ';' : ',',
                     .skip_bad_records = (choice >> 2) & 3};
  if ((choice & 16) != 0) options.missing = 0.5;
  if ((choice & 32) != 0) {
    options.columns = {{.index = 1, .dtype = DT_DOUBLE},
                       {.index = 0, .vocabulary = {"a", "b"}, .unknown = 2}};
    options.columns[0].dtype = (choice & 64) != 0 ? DT_INT32 : DT_DOUBLE;
  }
  const absl::StatusOr<CsvTable> one = ReadCsv(file.path(), options);
  MF_CHECK(one.ok() || one.status().code() != absl::StatusCode::kInternal);
  options.num_threads = 3;
  const absl::StatusOr<CsvTable> three = ReadCsv(file.path(), options);
  MF_CHECK(one.status() == three.status());
  if (!one.ok()) return 0;
  MF_CHECK(one->num_rows == three->num_rows);
  MF_CHECK(one->first_bad_record == three->first_bad_record);
  for (size_t i = 0; i < one->columns.size(); ++i) {
    MF_CHECK(Tensor::Identical(one->columns[i], three->columns[i]));
  }
  return 0;
}
