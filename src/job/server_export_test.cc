#include "job/server_export.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <sstream>

#include <gmock/gmock.h>

#include "algo/table_partition.h"
#include "disk/run_lock.h"
#include "job/server_folders.h"
#include "ps/job_spec.h"
#include "ps/push_message.h"
#include "ps/server_core.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"
#include "wire/safetensors.h"

namespace paceline::job {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::ReadFile;
using testing::StatusIs;

ps::JobSpec Job() {
  ps::JobSpec job{.fingerprint = "test", .trainers = 1};
  job.tables.push_back({.options = {.name = "words", .dim = 2}});
  job.tables.push_back({.options = {.name = "bias", .dim = 1}});
  job.dense.push_back({"w", {4, 3}});
  job.dense.push_back({"b", {4, 1}});
  job.dense.push_back({".report", {1, 2}, ps::DenseKind::kStatistic});
  return job;
}

// Servers whose dense value i is i, and whose row `id` of table t has values -id - t.
class ServerExportTest : public ::testing::Test {
 protected:
  void Leave(std::uint32_t servers, bool stopped = true) {
    for (std::uint32_t i = 0; i < servers; ++i) {
      const std::string folder = ServerFolder(run_, i);
      std::filesystem::create_directories(folder);
      auto core = ps::ServerCore::Open({.file_system = &fs_,
                                        .folder = folder,
                                        .index = i,
                                        .servers = servers,
                                        .group = std::chrono::milliseconds(0),
                                        .load_from = {}});
      ASSERT_THAT(core, IsOk());
      Fill(**core, servers, i);
      if (stopped) {
        ASSERT_THAT((*core)->Snapshot(), IsOk());
      }
    }
  }
  static void Fill(ps::ServerCore& core, std::uint32_t servers, std::uint32_t index) {
    const ps::JobSpec job = Job();
    ASSERT_THAT(core.Configure(job), IsOk());
    std::vector<float> dense;
    for (const ps::DensePiece& piece : ps::DensePiecesOf(job, servers, index)) {
      for (std::uint64_t i = 0; i < piece.count; ++i) {
        dense.push_back(static_cast<float>(piece.begin + i));
      }
    }
    ASSERT_THAT(core.Initialise(dense), IsOk());
    ps::Push push{.lease = 0, .batch = 0, .learning_rate = 1};
    std::vector<std::int64_t> ids;
    for (std::int64_t id = 0; id < 10; ++id) {
      if (algo::ServerOf(id, servers) == index) ids.push_back(id);
    }
    std::vector<std::vector<float>> gradients(2);
    for (std::uint32_t table = 0; table < 2; ++table) {
      const std::size_t dim = job.tables[table].options.dim;
      for (const std::int64_t id : ids) {
        gradients[table].insert(gradients[table].end(), dim, static_cast<float>(id + table));
      }
      push.tables.push_back({table, static_cast<std::uint32_t>(dim), ids, gradients[table]});
    }
    const ps::MessageBytes message = ps::EncodePush(push);
    ASSERT_THAT(core.Push(ps::AsBytes(message)), IsOk());
  }

  testing::TempDir dir_{testing::TempDir::Place::kMemory};
  const std::string run_ = dir_ / "run", out_ = dir_ / "out";
  disk::PosixFileSystem fs_;
};

template <typename Number>
std::vector<Number> Numbers(const std::string& file, const wire::SafetensorsHeader& header,
                            const wire::TensorInfo& tensor) {
  std::vector<Number> numbers((tensor.end - tensor.begin) / sizeof(Number));
  std::memcpy(numbers.data(), file.data() + header.data_start + tensor.begin,
              tensor.end - tensor.begin);
  return numbers;
}

TEST_F(ServerExportTest, SafetensorsHaveEverythingOfAllServers) {
  Leave(3);
  const auto done = ExportParameters(fs_, run_, out_, ExportFormat::kSafetensors);
  ASSERT_THAT(done, IsOk());
  EXPECT_EQ(done->dense_floats, 16U);
  ASSERT_THAT(done->files, ElementsAre(out_ + "/model.safetensors"));
  const std::string file = ReadFile(done->files[0]);
  const auto header = wire::DecodeSafetensorsHeader(std::as_bytes(std::span(file)), file.size());
  ASSERT_THAT(header, IsOk());
  std::map<std::string, wire::TensorInfo> tensors;
  for (const wire::TensorInfo& tensor : header->tensors) tensors[tensor.name] = tensor;
  ASSERT_EQ(tensors.size(), 6U);
  EXPECT_THAT(tensors["w"].shape, ElementsAre(4, 3));
  EXPECT_THAT(tensors["b"].shape, ElementsAre(4));
  EXPECT_THAT(Numbers<float>(file, *header, tensors["b"]), ElementsAre(12, 13, 14, 15));
  EXPECT_EQ(Numbers<float>(file, *header, tensors["w"])[11], 11.0F);
  EXPECT_THAT(tensors["words.ids"].shape, ElementsAre(10));
  EXPECT_THAT(tensors["words.values"].shape, ElementsAre(10, 2));
  EXPECT_THAT(tensors["bias.values"].shape, ElementsAre(10, 1));
  auto ids = Numbers<std::int64_t>(file, *header, tensors["words.ids"]);
  const auto words = Numbers<float>(file, *header, tensors["words.values"]);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(words[2 * i], -static_cast<float>(ids[i]));
    EXPECT_EQ(words[2 * i + 1], -static_cast<float>(ids[i]));
  }
  std::ranges::sort(ids);
  EXPECT_THAT(ids, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
}

TEST_F(ServerExportTest, TensorsHaveTheShapesOfTheModel) {
  ps::JobSpec job{.fingerprint = "test"};
  job.dense.push_back({.name = "conv", .rows = {8, 27}, .shape = {8, 3, 3, 3}});
  job.dense.push_back({.name = "scale", .rows = {1, 1}, .shape = {}});
  const std::string folder = ServerFolder(run_, 0);
  std::filesystem::create_directories(folder);
  {
    auto core = ps::ServerCore::Open({.file_system = &fs_, .folder = folder});
    ASSERT_THAT(core, IsOk());
    ASSERT_THAT((*core)->Configure(job), IsOk());
    ASSERT_THAT((*core)->Initialise(std::vector<float>(217, 1.0F)), IsOk());
    ASSERT_THAT((*core)->Snapshot(), IsOk());
  }
  const auto done = ExportParameters(fs_, run_, out_, ExportFormat::kSafetensors);
  ASSERT_THAT(done, IsOk());
  const std::string file = ReadFile(done->files[0]);
  const auto header = wire::DecodeSafetensorsHeader(std::as_bytes(std::span(file)), file.size());
  ASSERT_THAT(header, IsOk());
  ASSERT_EQ(header->tensors.size(), 2U);
  EXPECT_THAT(header->tensors[0].shape, ElementsAre(8, 3, 3, 3));
  EXPECT_THAT(header->tensors[1].shape, ::testing::IsEmpty());
}

TEST_F(ServerExportTest, TextHasALineForEachRow) {
  Leave(1);
  const auto done = ExportParameters(fs_, run_, out_, ExportFormat::kText);
  ASSERT_THAT(done, IsOk());
  EXPECT_THAT(done->files,
              ElementsAre(out_ + "/words.txt", out_ + "/bias.txt", out_ + "/dense.safetensors"));
  std::istringstream lines(ReadFile(out_ + "/words.txt"));
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_EQ(line, "10 2");
  std::vector<std::string> rows;
  while (std::getline(lines, line)) rows.push_back(line);
  EXPECT_EQ(rows.size(), 10U);
  EXPECT_THAT(rows, ::testing::Contains("7 -7 -7"));
}

TEST_F(ServerExportTest, TextHasWordsWhereTheRunHasAVocabulary) {
  Leave(1);
  testing::WriteFile(run_ + "/vocabulary.txt", "<UNK> 9\nthe 8\nfox 7\n");
  ASSERT_THAT(ExportParameters(fs_, run_, out_, ExportFormat::kText), IsOk());
  const std::string text = ReadFile(out_ + "/words.txt");
  EXPECT_THAT(text, HasSubstr("\nthe -1 -1\n"));
  EXPECT_THAT(text, HasSubstr("\nfox -2 -2\n"));
  EXPECT_THAT(text, HasSubstr("\n7 -7 -7\n"));
}

TEST_F(ServerExportTest, WhatCannotBeExportedIsSaid) {
  EXPECT_THAT(ExportParameters(fs_, run_, out_, ExportFormat::kText),
              StatusIs(Code::kNotFound, HasSubstr("there is no run " + run_)));
  std::filesystem::create_directories(run_);
  EXPECT_THAT(ExportParameters(fs_, run_, out_, ExportFormat::kText),
              StatusIs(Code::kNotFound, HasSubstr("server-0")));
  Leave(2, /*stopped=*/false);
  EXPECT_THAT(ExportParameters(fs_, run_, out_, ExportFormat::kText),
              StatusIs(Code::kBadCheckpoint, HasSubstr("log records behind")));
  std::filesystem::remove_all(run_);
  Leave(2);
  {
    const auto alive = disk::RunLock::Acquire(ServerFolder(run_, 1));
    EXPECT_THAT(ExportParameters(fs_, run_, out_, ExportFormat::kText),
                StatusIs(Code::kAlreadyRunning, HasSubstr("server-1")));
  }
  EXPECT_THAT(ExportParameters(fs_, run_, out_, ExportFormat::kText), IsOk());
  EXPECT_THAT(ExportParameters(fs_, run_, out_, ExportFormat::kText),
              StatusIs(Code::kInvalidArgument, HasSubstr("is there already")));
  std::filesystem::remove_all(ServerFolder(run_, 1));
  EXPECT_THAT(ExportParameters(fs_, run_, out_ + "2", ExportFormat::kText),
              StatusIs(Code::kBadCheckpoint, HasSubstr("server 0 of 2, but 1 folders")));
}

TEST(ExportFormatTest, Names) {
  EXPECT_THAT(ParseExportFormat("safetensors"), IsOk());
  EXPECT_THAT(ParseExportFormat("csv"), StatusIs(Code::kInvalidArgument, HasSubstr("'csv'")));
}

}  // namespace
}  // namespace paceline::job
