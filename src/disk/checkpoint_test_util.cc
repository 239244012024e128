#include "disk/checkpoint_test_util.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include <gmock/gmock.h>

#include "base/rng.h"
#include "testing/seed.h"
#include "testing/status_matchers.h"

namespace paceline::disk {

SampleCheckpoint::SampleCheckpoint(std::uint64_t number) {
  meta_ = {.step = Step(number),
           .epoch = number / 10,
           .sample_position = number * 64,
           .world_size = 4,
           .seed = ~std::uint64_t{0},
           .optimizer = "sgd",
           .model = "mlp",
           .model_hash = "0123abcd",
           .config = {{"lr", "0.1"}},
           .counters = {{"loss", 0.25}, {"restarts", std::int64_t{-3}}}};
  files_.push_back({.name = "model.safetensors"});
  AddTensor("weight", {3, 5});
  AddTensor("nothing", {0, 7});
  AddTensor("bias", {5});
  files_.push_back({.name = "optimizer-00001.safetensors"});
  AddTensor("weight", {4096});
}

void SampleCheckpoint::AddTensor(const std::string& name, std::vector<std::int64_t> shape) {
  CounterRng rng(testing::TestSeed(), Purpose::kTest, meta_.step.value(), data_.size());
  std::vector<std::byte> bytes(*wire::TensorBytes(wire::DType::kF32, shape));
  for (std::byte& b : bytes) b = static_cast<std::byte>(rng.Next() & 0xFF);
  data_.push_back(std::move(bytes));
  files_.back().tensors.push_back({name, wire::DType::kF32, std::move(shape), data_.back()});
}

Result<Generation> SaveSample(FileSystem& fs, const std::string& root, std::uint64_t number,
                              int keep) {
  const SampleCheckpoint sample(number);
  CheckpointStore store(fs, root, {.cluster_id = kTestCluster, .keep = keep});
  return store.Save(sample.meta(), sample.files());
}

Result<LoadedCheckpoint> Load(FileSystem& fs, const std::string& root) {
  return CheckpointStore(fs, root, {.cluster_id = kTestCluster}).LoadNewest();
}

void ExpectWholeSample(const LoadedCheckpoint& loaded) {
  const SampleCheckpoint sample(loaded.meta.step.value());
  CheckpointMeta meta = sample.meta();
  meta.cluster_id = kTestCluster;
  meta.generation = loaded.meta.generation;
  EXPECT_EQ(loaded.meta, meta);
  EXPECT_EQ(loaded.files.size(), sample.files().size());
  for (const CheckpointFile& file : sample.files()) {
    for (const TensorView& tensor : file.tensors) {
      const auto found = loaded.Find(file.name, tensor.name);
      ASSERT_TRUE(found.has_value()) << file.name << " " << tensor.name;
      EXPECT_EQ(found->dtype, tensor.dtype);
      EXPECT_EQ(found->shape, tensor.shape);
      EXPECT_TRUE(std::equal(found->bytes.begin(), found->bytes.end(), tensor.bytes.begin(),
                             tensor.bytes.end()))
          << file.name << " " << tensor.name;
    }
  }
}

std::vector<std::string> Names(const std::string& dir) {
  PosixFileSystem fs;
  auto entries = fs.List(dir);
  EXPECT_THAT(entries, testing::IsOk());
  std::vector<std::string> names;
  for (const DirEntry& entry : *entries) names.push_back(entry.name);
  return names;
}

bool HasTemporaries(const std::string& root) {
  const auto names = Names(root);
  return std::any_of(names.begin(), names.end(),
                     [](const std::string& name) { return name.starts_with(kTemporaryPrefix); });
}

int RunInChild(const std::function<int()>& body) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(body());  // no destructors, no second report from gtest
  int status = -1;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  return status;
}

}  // namespace paceline::disk
