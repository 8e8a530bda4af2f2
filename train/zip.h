// SPDX-License-Identifier: Apache-2.0
//
// Zip archives, as far as NumPy's npz files use them: stored and deflated members, zip64, no
// encryption, one disk.
#ifndef MIRRORFLOW_TRAIN_ZIP_H_
#define MIRRORFLOW_TRAIN_ZIP_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/core/file.h"

struct z_stream_s;

namespace mirrorflow {

struct ZipEntry {
  std::string name;
  bool deflated = false;
  uint32_t crc = 0;
  uint64_t offset = 0;           // of its bytes in the file
  uint64_t compressed_size = 0;  // there
  uint64_t size = 0;             // when inflated
};

// The entries in the order of the central directory. DataLoss for an archive that breaks the format
// or says one thing twice and differently: the directory must end where the end record begins,
// local headers must agree with it, no two entries may share a byte or a name, and none may be
// larger than deflate can make it. So what an entry says can be allocated. Unimplemented for other
// compression methods, encryption and several disks. Errors do not name the path.
absl::StatusOr<std::vector<ZipEntry>> ReadZipDirectory(const InputFile& file);

// The bytes of an entry in order, inflated on the way.
class ZipEntryReader {
 public:
  static absl::StatusOr<std::unique_ptr<ZipEntryReader>> Open(const InputFile& file,
                                                              const ZipEntry& entry);
  ~ZipEntryReader();

  // Fills `out` with the next `size` bytes; DataLoss if the entry does not have them.
  absl::Status Read(size_t size, void* out);
  // After the last byte: DataLoss if there are more, or they are not those that were written.
  absl::Status Finish();

 private:
  ZipEntryReader(const InputFile& file, const ZipEntry& entry);
  absl::Status Inflate(size_t size, unsigned char* out);
  absl::Status Refill();

  const InputFile& file_;
  const ZipEntry& entry_;
  uint64_t taken_ = 0;                  // bytes of the file
  uint64_t given_ = 0;                  // bytes to the caller
  uint32_t crc_ = 0;                    // of those
  std::unique_ptr<z_stream_s> stream_;  // null for a stored entry
  std::vector<unsigned char> input_;    // what stream_ inflates from
};

// One member to write: its bytes are the pieces, one behind the other.
struct ZipMember {
  std::string name;
  std::vector<absl::string_view> pieces;
};

// Writes the members, stored, atomically. All sizes are written as zip64, which every size fits.
absl::Status WriteZip(absl::string_view path, absl::Span<const ZipMember> members);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_ZIP_H_
