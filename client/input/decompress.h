// Unpacks gzip and zstd as the bytes pass, whatever the file is called.
#ifndef NIGHTSHIFT_CLIENT_INPUT_DECOMPRESS_H_
#define NIGHTSHIFT_CLIENT_INPUT_DECOMPRESS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/input/byte_source.h"

namespace nightshift {

enum class Compression { kNone, kGzip, kZstd };

// Unpacks all members or frames, one after the other. Data that is damaged or ends in the middle is
// DataLoss: the rest of the job would be missing without a word. What follows the last member and
// is no further one is left out and said in a warning, since all that the archive holds has been
// read and its checksum was right.
class DecompressingSource : public ByteSource {
 public:
  // Looks at the first bytes of `packed`. InvalidArgument for kinds of file that are often named by
  // mistake and can never be lines of text (zip and Excel, xz, bzip2, Parquet). `name` is for
  // messages. Returns a source that passes plain bytes on as they are.
  static absl::StatusOr<std::unique_ptr<DecompressingSource>> Create(
      std::unique_ptr<ByteSource> packed, const std::string& name);

  virtual Compression compression() const = 0;
  // Empty when there is nothing to say.
  virtual std::string warning() const = 0;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_CLIENT_INPUT_DECOMPRESS_H_
