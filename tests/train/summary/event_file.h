// SPDX-License-Identifier: Apache-2.0
//
// Reads event files without the library: framing, checksums and wire format are decoded here, from
// TensorFlow's and protobuf's documentation.
#ifndef MIRRORFLOW_TESTS_TRAIN_SUMMARY_EVENT_FILE_H_
#define MIRRORFLOW_TESTS_TRAIN_SUMMARY_EVENT_FILE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace mirrorflow {

// A message as it is on the wire.
class WireMessage {
 public:
  // Fails the test for malformed bytes.
  explicit WireMessage(absl::string_view bytes);

  bool Has(int field) const { return fields_.count(field) != 0; }
  std::vector<std::string> All(int field) const;  // the values of a repeated field
  std::string String(int field) const;            // of the last value; "" without one
  WireMessage Message(int field) const { return WireMessage(String(field)); }
  int64_t Int(int field) const;  // 0 without a value
  float Float(int field) const;
  double Double(int field) const;
  std::vector<double> PackedDoubles(int field) const;

 private:
  std::map<int, std::vector<std::string>> fields_;  // numbers as their bytes
};

// The records of a TFRecord file. Fails the test for a wrong checksum, and for a last record that
// is cut short, unless another thread is writing it.
std::vector<WireMessage> ReadEvents(const std::string& path, bool is_growing = false);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_TRAIN_SUMMARY_EVENT_FILE_H_
