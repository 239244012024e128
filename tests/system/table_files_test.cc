// Data files of models with embedding tables, as a user trains on them: clicks, and queries with
// titles. Alone, with a parameter server to the same parameters, and with a bad line.
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "support/program.h"
#include "testing/temp_dir.h"

namespace paceline::testing {
namespace {

using ::testing::HasSubstr;

constexpr int kBadFile = 12;
constexpr std::size_t kLines = 600;

class TableFilesTest : public ::testing::Test {
 protected:
  CommandResult Train(const std::string& model, const std::string& run,
                      const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments{"train",    model,      "--data",   data_,         "--run",
                                       dir_ / run, "--epochs", "6",        "--optimizer", "adam",
                                       "--lr",     "0.01",     "--shards", "2",           "--batch",
                                       "10",       "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return RunPaceline(arguments);
  }

  // Alone, and with two trainers of a server. Returns what the first one has printed.
  nlohmann::json ExpectTrains(const std::string& model) {
    const CommandResult alone = Train(model, "alone");
    const CommandResult served =
        Train(model, "served", {"--strategy", "ps", "--workers", "2", "--servers", "1"});
    EXPECT_EQ(HashOf(served), HashOf(alone));
    EXPECT_EQ(LastJson(served.out)["accuracy"], LastJson(alone.out)["accuracy"]);
    EXPECT_EQ(LastJson(served.out)["auc"], LastJson(alone.out)["auc"]);
    return LastJson(alone.out);
  }

  // In two files, whose names tell their order.
  void PutFolder(const std::vector<std::string>& lines) {
    std::filesystem::create_directory(data_);
    const auto middle = lines.begin() + static_cast<std::ptrdiff_t>(lines.size()) / 3;
    WriteFile(data_ + "/part-0", Joined({lines.begin(), middle}));
    WriteFile(data_ + "/part-1", Joined({middle, lines.end()}));
  }

  void PutFile(const std::vector<std::string>& lines) { WriteFile(data_, Joined(lines)); }

  static std::string Joined(const std::vector<std::string>& lines) {
    std::string text;
    for (const std::string& line : lines) text += line + '\n';
    return text;
  }

  // Where line `line` of `lines` begins, counted from 0.
  static std::size_t OffsetOf(const std::vector<std::string>& lines, std::size_t line) {
    const auto before = lines.begin() + static_cast<std::ptrdiff_t>(line);
    return Joined({lines.begin(), before}).size();
  }

  // How messages of the two kinds of files name it.
  std::string PlaceOfClick(const std::vector<std::string>& lines, std::size_t line) const {
    return fmt::format("{}: line {} at byte offset {}: ", data_, line + 1, OffsetOf(lines, line));
  }
  std::string PlaceOfTitle(const std::vector<std::string>& lines, std::size_t line) const {
    return fmt::format("{}: line {}, byte offset {}: ", data_, line + 1, OffsetOf(lines, line));
  }

  const TempDir dir_{TempDir::Place::kMemory};
  const std::string data_ = dir_ / "data";
};

// Four of the categories tell whether it was clicked; a seventh of the numbers and an eleventh of
// the categories are missing.
std::vector<std::string> Clicks() {
  std::mt19937 random(1);
  std::vector<std::string> lines;
  for (std::size_t line = 0; line < kLines; ++line) {
    const bool clicked = random() % 2 == 0;
    std::string text = clicked ? "1" : "0";
    for (std::size_t i = 0; i < 13; ++i) {
      const int number = static_cast<int>(random() % 30) - 2;
      text += (line + i) % 7 == 0 ? "\t" : fmt::format("\t{}", number);
    }
    for (std::size_t i = 0; i < 26; ++i) {
      const std::size_t kind = i * 16 + (clicked && i < 4 ? 8 : 0) + random() % 8;
      text += (line + i) % 11 == 0 ? "\t" : fmt::format("\t{:08x}", kind);
    }
    lines.push_back(std::move(text));
  }
  return lines;
}

// A title fits if it has the query's topic.
std::vector<std::string> Titles() {
  std::mt19937 random(1);
  std::vector<std::string> lines;
  for (std::size_t line = 0; line < kLines; ++line) {
    const std::size_t topic = random() % 20, other = (topic + 1 + random() % 19) % 20;
    const auto filler = [&] { return 300 + random() % 20; };
    lines.push_back(fmt::format("{} {}\t{} {} {}\t{} {}", topic, 100 + topic, 200 + topic,
                                100 + topic, filler(), 200 + other, filler()));
  }
  return lines;
}

TEST_F(TableFilesTest, ClicksTrain) {
  PutFile(Clicks());
  const nlohmann::json result = ExpectTrains("ctr-dnn-small");
  EXPECT_GT(result["auc"], 0.9);
  EXPECT_EQ(result["eval_samples"], kLines / 10);
  EXPECT_EQ(result["bad_records"], 0);
}

TEST_F(TableFilesTest, FilesOfAFolderAreReadInOrderOfName) {
  PutFolder(Clicks());
  const std::string expected = HashOf(Train("ctr-dnn-small", "folder"));
  std::filesystem::remove_all(data_);
  PutFile(Clicks());
  EXPECT_EQ(HashOf(Train("ctr-dnn-small", "file")), expected);
}

TEST_F(TableFilesTest, TheLargeModelTakesTheSameFile) {
  PutFile(Clicks());
  const CommandResult result = Train("ctr-dnn", "run", {"--epochs", "1"});
  ASSERT_EQ(result.state.code, 0) << result.err;
  EXPECT_GT(LastJson(result.out)["auc"], 0.5);
}

TEST_F(TableFilesTest, ABadLineOfClicksIsNamedOrSkipped) {
  std::vector<std::string> lines = Clicks();
  lines[4].replace(2, lines[4].find('\t', 2) - 2, "many");
  PutFile(lines);
  const std::string wrong = PlaceOfClick(lines, 4) + "field 2 is not an integer: 'many'";
  ExpectError(Train("ctr-dnn-small", "fails"), kBadFile, wrong);
  const CommandResult skipped = Train("ctr-dnn-small", "skips", {"--bad-record", "skip"});
  ASSERT_EQ(skipped.state.code, 0) << skipped.err;
  EXPECT_EQ(LastJson(skipped.out)["bad_records"], 1);
  EXPECT_THAT(skipped.err, HasSubstr("1 bad lines left out"));
}

TEST_F(TableFilesTest, AFileOfClicksThatIsCutIsNamed) {
  const std::vector<std::string> lines = Clicks();
  PutFile(lines);
  std::filesystem::resize_file(data_, Joined(lines).size() - 100);
  ExpectError(Train("ctr-dnn-small", "run"), kBadFile, PlaceOfClick(lines, kLines - 1));
}

TEST_F(TableFilesTest, QueriesAndTitlesTrain) {
  PutFolder(Titles());
  const nlohmann::json result = ExpectTrains("simnet-bow-small");
  EXPECT_GT(result["accuracy"], 0.8);  // of the order of two titles
  EXPECT_TRUE(result.contains("pair_ratio"));
  EXPECT_EQ(result["eval_samples"], kLines / 10);
}

TEST_F(TableFilesTest, ABadLineOfQueriesIsNamed) {
  std::vector<std::string> lines = Titles();
  lines[7] += "x";
  PutFile(lines);
  ExpectError(Train("simnet-bow-small", "run"), kBadFile,
              PlaceOfTitle(lines, 7) + "not a list of ids");
}

TEST_F(TableFilesTest, AFileOfQueriesThatIsCutIsNamed) {
  const std::vector<std::string> lines = Titles();
  PutFile(lines);
  std::filesystem::resize_file(data_, Joined(lines).size() - lines.back().size() / 2);
  ExpectError(Train("simnet-bow-small", "run"), kBadFile, PlaceOfTitle(lines, kLines - 1));
}

}  // namespace
}  // namespace paceline::testing
