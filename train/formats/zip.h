// SPDX-License-Identifier: Apache-2.0
//
// Reads and writes zip archives with the features that NumPy's npz files use: stored and deflated
// members, zip64, no encryption, one disk. We do not use libzip, because it does not report a
// stored member's file offset, which mapping requires, and it accepts archives with overlapping
// members.
#ifndef MIRRORFLOW_TRAIN_FORMATS_ZIP_H_
#define MIRRORFLOW_TRAIN_FORMATS_ZIP_H_

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
  uint64_t offset = 0;           // file offset of its data
  uint64_t compressed_size = 0;  // size of its data in the file
  uint64_t size = 0;             // size after inflation
  // OK, or Unimplemented for encryption and for compression other than deflate.
  absl::Status readable;
};

// Returns the entries in the order of the central directory. Returns DataLoss for an archive that
// violates the format or is inconsistent: the central directory must end where the end record
// begins, local headers must agree with the directory, no two entries may share a byte or a name,
// and no entry may be larger than deflate can produce from its data. It is therefore safe to
// allocate the size of a readable entry. Returns Unimplemented for multiple disks. Errors omit the
// path.
absl::StatusOr<std::vector<ZipEntry>> ReadZipDirectory(const InputFile& file);

// Reads an entry sequentially, and inflates it if it is deflated.
class ZipEntryReader {
 public:
  // Returns the error of an unreadable entry.
  static absl::StatusOr<std::unique_ptr<ZipEntryReader>> Open(const InputFile& file,
                                                              const ZipEntry& entry);
  ~ZipEntryReader();

  // Reads the next `size` bytes into `out`. Returns DataLoss if fewer remain in the entry.
  absl::Status Read(size_t size, void* out);
  // Must be called after the last byte has been read. Returns DataLoss if the entry has more bytes,
  // or a wrong checksum.
  absl::Status Finish();

 private:
  ZipEntryReader(const InputFile& file, const ZipEntry& entry);
  absl::Status Inflate(size_t size, unsigned char* out);
  absl::Status Refill();

  const InputFile& file_;
  const ZipEntry& entry_;
  uint64_t taken_ = 0;                  // bytes read from the file
  uint64_t given_ = 0;                  // bytes returned to the caller
  uint32_t crc_ = 0;                    // checksum of the returned bytes
  std::unique_ptr<z_stream_s> stream_;  // null for a stored entry
  std::vector<unsigned char> input_;    // compressed bytes for stream_
};

// A member to write. Its contents are the pieces, concatenated.
struct ZipMember {
  std::string name;
  std::vector<absl::string_view> pieces;
};

// Writes an archive of the members atomically, without compression. Writes all sizes as zip64, so
// members and archive can have any size.
absl::Status WriteZip(absl::string_view path, absl::Span<const ZipMember> members);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_FORMATS_ZIP_H_
