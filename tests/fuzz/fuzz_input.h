// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TESTS_FUZZ_FUZZ_INPUT_H_
#define MIRRORFLOW_TESTS_FUZZ_FUZZ_INPUT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

namespace mirrorflow {

// Reads little-endian integers and bytes from the front of a fuzzer's input. Past the end of the
// input, integers are 0 and strings are empty.
class FuzzInput {
 public:
  FuzzInput(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  bool empty() const { return size_ == 0; }

  template <typename T>
  T Take() {
    T value = 0;
    for (size_t i = 0; i < sizeof(T); ++i) {
      if (i < size_) value = static_cast<T>(value | static_cast<T>(data_[i]) << (8 * i));
    }
    Skip(sizeof(T));
    return value;
  }

  // Returns the next `count` bytes, or fewer at the end of the input.
  std::string TakeBytes(size_t count) {
    std::string bytes(reinterpret_cast<const char*>(data_), std::min(count, size_));
    Skip(count);
    return bytes;
  }

 private:
  void Skip(size_t count) {
    data_ += std::min(count, size_);
    size_ -= std::min(count, size_);
  }

  const uint8_t* data_;
  size_t size_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_FUZZ_FUZZ_INPUT_H_
