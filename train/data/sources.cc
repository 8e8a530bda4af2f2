// SPDX-License-Identifier: Apache-2.0
#include "train/data/sources.h"

#include <glob.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/core/file.h"
#include "framework/core/log.h"
#include "framework/core/status.h"
#include "train/formats/npy.h"
#include "train/formats/npz.h"
#include "train/formats/tf_record.h"

namespace mirrorflow {
namespace {

namespace fs = std::filesystem;

// Expands the patterns in `paths`, in order. The files that match a pattern are in alphabetical
// order.
absl::StatusOr<std::vector<std::string>> ExpandPatterns(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code error;
    if (path.find_first_of("*?[") == std::string::npos || fs::exists(path, error)) {
      files.push_back(path);
      continue;
    }
    // Fail if a directory cannot be read, because its files would be missing.
    const auto is_error = [](const char*, int error) {
      return error == ENOENT || error == ENOTDIR ? 0 : 1;
    };
    glob_t found = {};
    const int result = glob(path.c_str(), GLOB_NOSORT, is_error, &found);
    std::vector<std::string> matches(found.gl_pathv, found.gl_pathv + found.gl_pathc);
    globfree(&found);
    if (result == GLOB_NOMATCH) {
      return absl::NotFoundError(
          absl::StrCat(path, ": no file matches the pattern; expected at least one, got none"));
    }
    if (result != 0) return absl::UnavailableError(absl::StrCat(path, ": cannot be listed"));
    std::sort(matches.begin(), matches.end());
    std::move(matches.begin(), matches.end(), std::back_inserter(files));
  }
  return files;
}

// Returns InvalidArgument if all files are empty. A single empty file may be an empty shard, but a
// dataset without records is a mistake.
absl::Status CheckNotAllEmpty(const std::vector<std::string>& files) {
  for (const std::string& path : files) {
    std::error_code error;
    if (fs::file_size(path, error) > 0 || error) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(files[0], ": the file is empty; expected TFRecords, got 0 bytes in ",
                   files.size(), files.size() == 1 ? " file" : " files"));
}

// Joins all columns into one float matrix.
absl::StatusOr<Tensor> JoinColumns(absl::Span<const Tensor> columns, int64_t rows) {
  const auto width = static_cast<int64_t>(columns.size());
  MF_ASSIGN_OR_RETURN(Tensor matrix, Tensor::Allocate(DT_FLOAT, {rows, width}));
  float* const to = matrix.data<float>();
  for (int64_t c = 0; c < width; ++c) {
    const auto copy = [&](auto tag) {
      const auto values = columns[c].flat<typename decltype(tag)::type>();
      for (int64_t i = 0; i < rows; ++i) to[i * width + c] = static_cast<float>(values[i]);
      return true;
    };
    if (DispatchDataType(columns[c].dtype(), copy, false)) continue;
    return absl::InternalError(
        absl::StrCat("csv: unexpected column type ", columns[c].TypeString()));
  }
  return matrix;
}

// Joins the rows of all tables, which must have the same columns.
absl::StatusOr<CsvTable> JoinTables(const std::vector<std::string>& paths,
                                    const std::vector<CsvTable>& tables) {
  CsvTable joined;
  joined.names = tables[0].names;
  size_t like = 0;  // the first table with rows: tables without rows have no inferred dtypes
  while (like + 1 < tables.size() && tables[like].num_rows == 0) ++like;
  for (size_t t = 0; t < tables.size(); ++t) {
    const auto error = [&](absl::string_view expected, size_t as_in, absl::string_view got) {
      return absl::InvalidArgumentError(
          absl::StrCat(paths[t], ": expected ", expected, " as in ", paths[as_in], ", got ", got));
    };
    if (tables[t].names != joined.names) {
      return error(absl::StrCat("the columns ", absl::StrJoin(joined.names, ",")), 0,
                   absl::StrJoin(tables[t].names, ","));
    }
    for (size_t c = 0; c < joined.names.size() && tables[t].num_rows > 0; ++c) {
      const DataType first = tables[like].columns[c].dtype(), dtype = tables[t].columns[c].dtype();
      if (dtype == first) continue;
      return error(absl::StrCat("column '", joined.names[c], "' of ", DataTypeName(first)), like,
                   absl::StrCat(DataTypeName(dtype), "; set the dtype in CsvOptions::columns"));
    }
    joined.num_rows += tables[t].num_rows;
  }
  for (size_t c = 0; c < joined.names.size(); ++c) {
    MF_ASSIGN_OR_RETURN(Tensor column,
                        Tensor::Allocate(tables[like].columns[c].dtype(), {joined.num_rows}));
    std::byte* to = column.raw();
    for (const CsvTable& table : tables) {
      const Tensor& part = table.columns[c];
      if (part.bytes() > 0) std::memcpy(to, part.raw(), part.bytes());
      to += part.bytes();
    }
    joined.columns.push_back(std::move(column));
  }
  return joined;
}

absl::StatusOr<Dataset> OpenCsv(const std::vector<std::string>& paths, const CsvSource& source) {
  std::vector<CsvTable> tables;
  for (const std::string& path : paths) {
    MF_ASSIGN_OR_RETURN(const CsvTable table, ReadCsv(path, source.csv));
    if (table.num_bad_records > 0) {
      LogWarning(absl::StrCat(path, ": skipped ", table.num_bad_records, " bad record",
                              table.num_bad_records == 1 ? "" : "s",
                              "; first error: ", table.first_bad_record));
    }
    tables.push_back(table);  // shares its columns
  }
  CsvTable table = tables[0];
  if (tables.size() > 1) {
    MF_ASSIGN_OR_RETURN(table, JoinTables(paths, tables));
  }
  if (source.label.empty()) return Dataset::FromTensors(std::move(table.columns));
  const auto found = std::find(table.names.begin(), table.names.end(), source.label);
  if (found == table.names.end() || table.columns.size() < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat(paths[0], ": expected a label column '", source.label,
                     "' and at least one other column, got ",
                     found == table.names.end() ? "no such column" : "no other column"));
  }
  const auto place = found - table.names.begin();
  Tensor label = table.columns[place];
  table.columns.erase(table.columns.begin() + place);
  MF_ASSIGN_OR_RETURN(Tensor features, JoinColumns(table.columns, table.num_rows));
  return Dataset::FromTensors({std::move(features), std::move(label)});
}

absl::StatusOr<Dataset> OpenNpy(const std::vector<std::string>& paths) {
  std::vector<Tensor> components;
  for (const std::string& path : paths) {
    MF_ASSIGN_OR_RETURN(components.emplace_back(), MapNpy(path));
  }
  return Dataset::FromTensors(std::move(components));
}

absl::StatusOr<Dataset> OpenNpz(const std::string& path, const std::vector<std::string>& names) {
  MF_ASSIGN_OR_RETURN(std::vector<Tensor> components, MapNpz(path, names));
  return Dataset::FromTensors(std::move(components));
}

// Converts a record to a row.
using ParseRecord = std::function<absl::Status(absl::string_view record, Row* row)>;

// Returns a function that parses examples or, without features, returns the bytes of the record.
absl::StatusOr<ParseRecord> ParserOf(const std::vector<ExampleFeature>& features) {
  if (features.empty()) {
    return [](absl::string_view record, Row* row) -> absl::Status {
      const auto size = static_cast<int64_t>(record.size());
      MF_ASSIGN_OR_RETURN(Tensor bytes, Tensor::Allocate(DT_UINT8, {size}));
      if (size > 0) std::memcpy(bytes.raw(), record.data(), record.size());
      *row = {std::move(bytes)};
      return absl::OkStatus();
    };
  }
  MF_ASSIGN_OR_RETURN(ExampleParser examples, ExampleParser::Create(features));
  return [examples = std::move(examples)](absl::string_view record, Row* row) -> absl::Status {
    MF_ASSIGN_OR_RETURN(*row, examples.Parse(record));
    return absl::OkStatus();
  };
}

// Reads the records of files, one file after another.
class RecordSource final : public RowSource {
 public:
  RecordSource(std::vector<std::string> paths, ParseRecord parse)
      : paths_(std::move(paths)), parse_(std::move(parse)) {}

  absl::StatusOr<bool> Next(Row* row) override {
    while (true) {
      if (reader_ == nullptr) {
        if (next_ == paths_.size()) return false;
        MF_ASSIGN_OR_RETURN(reader_, TfRecordReader::Open(paths_[next_]));
      }
      const int64_t number = reader_->record();
      MF_ASSIGN_OR_RETURN(const bool more, reader_->Next(&record_));
      if (more) {
        MF_RETURN_IF_ERROR(
            Annotate(parse_(record_, row), absl::StrCat(paths_[next_], ": record ", number)));
        return true;
      }
      reader_ = nullptr;
      ++next_;
    }
  }

  absl::StatusOr<int64_t> Skip(int64_t count) override {
    int64_t skipped = 0;
    while (skipped < count) {
      if (reader_ == nullptr) {
        if (next_ == paths_.size()) break;
        MF_ASSIGN_OR_RETURN(reader_, TfRecordReader::Open(paths_[next_]));
      }
      MF_ASSIGN_OR_RETURN(const int64_t of_file, reader_->Skip(count - skipped));
      skipped += of_file;
      if (skipped == count) break;
      reader_ = nullptr;
      ++next_;
    }
    return skipped;
  }

 private:
  const std::vector<std::string> paths_;
  const ParseRecord parse_;
  size_t next_ = 0;  // index of reader_'s file or, if reader_ is null, of the next file
  std::unique_ptr<TfRecordReader> reader_;
  std::string record_;
};

// Returns whether the file starts with a gzip or zlib header. Returns false if it cannot be read.
bool IsCompressed(const std::string& path) {
  const absl::StatusOr<InputFile> file = InputFile::Open(path);
  unsigned char start[2] = {0, 0};
  if (!file.ok() || file->size() < sizeof(start)) return false;
  if (!file->Read(0, sizeof(start), start).ok()) return false;
  return (start[0] == 0x1f && start[1] == 0x8b) || start[0] == 0x78;
}

struct IndexedFile {
  std::string path;
  TfRecordIndex index;
  int64_t first_row = 0;
};

absl::StatusOr<Dataset> OpenTFRecords(const std::vector<std::string>& paths,
                                      const TFRecordSource& source) {
  MF_ASSIGN_OR_RETURN(const ParseRecord parse, ParserOf(source.features));
  bool random_access = source.random_access;
  for (const std::string& path : paths) {
    random_access = random_access && !IsCompressed(path);
  }
  if (!random_access) {
    return Dataset::FromSource(
        [paths, parse](int64_t) -> absl::StatusOr<std::unique_ptr<RowSource>> {
          return std::make_unique<RecordSource>(paths, parse);
        });
  }
  const auto files = std::make_shared<std::vector<IndexedFile>>();
  int64_t rows = 0;
  for (const std::string& path : paths) {
    MF_ASSIGN_OR_RETURN(TfRecordIndex index, TfRecordIndex::Build(path));
    const int64_t of_file = index.size();
    files->push_back({path, std::move(index), rows});
    rows += of_file;
  }
  return Dataset::FromRandomAccess(rows, [files, parse](int64_t i, Row* row) -> absl::Status {
    const auto after =
        std::upper_bound(files->begin(), files->end(), i,
                         [](int64_t row, const IndexedFile& f) { return row < f.first_row; });
    const IndexedFile& file = *(after - 1);
    std::string record;
    MF_RETURN_IF_ERROR(file.index.ReadAt(i - file.first_row, &record));
    return Annotate(parse(record, row), absl::StrCat(file.path, ": record ", i - file.first_row));
  });
}

}  // namespace

Dataset Dataset::FromCsv(const std::string& path, const CsvSource& source) {
  return FromFiles(
      {path}, [path] { return ExpandPatterns({path}); },
      [source](const std::vector<std::string>& paths) { return OpenCsv(paths, source); });
}

Dataset Dataset::FromNpy(const std::vector<std::string>& paths) {
  return OrError(OpenNpy(paths)).ReadFrom(paths);
}

Dataset Dataset::FromNpz(const std::string& path, const std::vector<std::string>& names) {
  return OrError(OpenNpz(path, names)).ReadFrom({path});
}

Dataset Dataset::FromTFRecords(const std::vector<std::string>& paths,
                               const TFRecordSource& source) {
  return FromFiles(
      paths,
      [paths]() -> absl::StatusOr<std::vector<std::string>> {
        if (paths.empty()) {
          return absl::InvalidArgumentError(
              "FromTFRecords(): expected at least one file, got none");
        }
        MF_ASSIGN_OR_RETURN(std::vector<std::string> files, ExpandPatterns(paths));
        MF_RETURN_IF_ERROR(CheckNotAllEmpty(files));
        return files;
      },
      [source](const std::vector<std::string>& paths) { return OpenTFRecords(paths, source); });
}

}  // namespace mirrorflow
