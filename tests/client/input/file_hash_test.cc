#include "client/input/file_hash.h"

#include <string>

#include "gtest/gtest.h"
#include "tests/client/input/input_support.h"

namespace nightshift {
namespace {

TEST(FileHashTest, FollowsTheBytesAlone) {
  const TemporaryFolder folder;
  std::string text(3'000'000, 'a');
  const std::string one = folder.Write("one", text);
  const std::string same = folder.Write("same", text);
  text[2'999'999] = 'b';
  const std::string other = folder.Write("other", text);
  EXPECT_EQ(HashFile(one)->size(), 32u);
  EXPECT_EQ(*HashFile(one), *HashFile(same));
  EXPECT_NE(*HashFile(one), *HashFile(other));
  // The published value of XXH3-128 for no bytes: a stored hash must mean the same for ever.
  EXPECT_EQ(*HashFile(folder.Write("empty", "")), "99aa06d3014798d86001c324468d497f");
}

TEST(FileHashTest, PiecesMakeTheSameHash) {
  StreamHash whole;
  whole.Update("abcdefg");
  StreamHash pieces;
  pieces.Update("abc");
  pieces.Update("");
  pieces.Update("defg");
  EXPECT_EQ(whole.Hex(), pieces.Hex());
}

TEST(FileHashTest, MissingFilesAndFoldersAreErrors) {
  const TemporaryFolder folder;
  EXPECT_TRUE(absl::IsNotFound(HashFile(folder.Path("none")).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(HashFile(folder.Path("")).status()));
}

}  // namespace
}  // namespace nightshift
