// word2vec_bench: words per second of Word2Vec on one thread, next to the classic algorithm
// (bench/peers/word2vec_classic.c) on the same text, in turns. CPU time, because both are
// single-threaded and the machine may be shared.
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/rng.h"
#include "base/stats.h"
#include "base/status.h"
#include "base/subprocess.h"
#include "data/synthetic_text.h"
#include "data/text_corpus.h"
#include "sparse/word2vec.h"

namespace paceline {

namespace {

struct Arguments {
  std::string classic, command;
  std::vector<std::size_t> dims{100, 300};
  std::uint64_t words = 500'000, vocabulary = 60'000, rounds = 5, batch = 64;
  std::uint32_t window = 5, negatives = 5;
  std::uint64_t min_count = 0;  // words seen at most so often are rare
  double subsample = 1e-3;
};

constexpr std::uint32_t kSentenceWords = 25;  // mean of the one-billion-word benchmark

// A name of letters for a word of the synthetic text.
std::string Spelled(std::int32_t word) {
  std::string name;
  for (; word >= 26; word /= 26) name += static_cast<char>('a' + word % 26);
  return name + static_cast<char>('a' + word);
}

Status WriteText(const Arguments& arguments, const std::filesystem::path& path) {
  const data::SyntheticText text({.seed = 1,
                                  .sentences = arguments.words / kSentenceWords,
                                  .sentence_words = kSentenceWords,
                                  .background = static_cast<std::uint32_t>(arguments.vocabulary),
                                  .pairs = 0});
  std::ofstream file(path);
  std::vector<std::int32_t> words;
  for (std::uint64_t sentence = 0; sentence < text.sentences(); ++sentence) {
    PACELINE_TRY(text.Read(sentence, words));
    for (const std::int32_t word : words) file << Spelled(word) << ' ';
    file << '\n';
  }
  file.close();
  if (!file) return Status::Error(Code::kDisk, path.string() + ": cannot be written");
  return {};
}

double CpuSeconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// One epoch over the text, everything included: reading, pairs, updates. Words per second.
Result<double> RunOurs(const Arguments& arguments, std::size_t dim, const data::TextSource& text) {
  sparse::Word2Vec model({.seed = 1,
                          .dim = dim,
                          .window = arguments.window,
                          .negatives = arguments.negatives,
                          .subsample = arguments.subsample},
                         text);
  std::vector<std::vector<float>> tables;
  for (const sparse::TableSpec& spec : model.tables()) {
    CounterRng rng(1, Purpose::kInit, tables.size(), 0);
    tables.emplace_back(spec.rows * spec.dim);
    if (spec.init_range == 0) continue;
    for (float& value : tables.back()) value = (2 * rng.Uniform() - 1) * spec.init_range;
  }
  const double start = CpuSeconds();
  std::uint64_t words = 0;
  std::unique_ptr<sparse::SparseBatch> batch;
  std::vector<std::vector<float*>> rows(2);
  for (std::uint64_t begin = 0; begin < text.sentences(); begin += arguments.batch) {
    const std::uint64_t count = std::min(arguments.batch, text.sentences() - begin);
    PACELINE_ASSIGN(batch, model.Prepare({begin, count}, std::move(batch)));
    for (std::size_t t = 0; t < 2; ++t) {
      rows[t].clear();
      for (const std::int64_t id : batch->ids[t]) {
        rows[t].push_back(tables[t].data() + static_cast<std::size_t>(id) * dim);
      }
    }
    const float rate =
        0.025F * (1 - static_cast<float>(begin) / static_cast<float>(text.sentences()));
    const std::vector<sparse::MutableRows> spans{rows[0], rows[1]};
    words += model.TrainInPlace(*batch, spans, rate).samples;
  }
  return static_cast<double>(words) / (CpuSeconds() - start);
}

Result<double> RunClassic(const Arguments& arguments, std::size_t dim, const std::string& text) {
  PACELINE_ASSIGN(
      const CommandResult result,
      RunCommand(
          {.argv = {arguments.classic, text, std::to_string(dim), std::to_string(arguments.window),
                    std::to_string(arguments.negatives), std::to_string(arguments.subsample),
                    std::to_string(arguments.min_count), "1"}},
          std::chrono::minutes(10)));
  const std::string key = "\"words_per_second\":";
  const std::size_t place = result.out.find(key);
  if (!result.state.Success() || place == std::string::npos) {
    return Status::Error(Code::kInternal, arguments.classic + ": " + result.state.Describe());
  }
  return std::stod(result.out.substr(place + key.size()));
}

double SecondsOf(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

double ChildrenCpuSeconds() {
  rusage usage{};
  ::getrusage(RUSAGE_CHILDREN, &usage);
  return SecondsOf(usage.ru_utime) + SecondsOf(usage.ru_stime);
}

// `paceline train word2vec` for one epoch on one CPU. All CPU time of the process counts: its
// start, the vocabulary, every thread and the final snapshot.
Result<double> RunTrainCommand(const Arguments& arguments, const std::filesystem::path& folder) {
  const std::string run = folder.string() + ".run";
  const double start = ChildrenCpuSeconds();
  PACELINE_ASSIGN(const CommandResult result,
                  RunCommand({.argv = {arguments.command, "train", "word2vec", "--data",
                                       folder.string(), "--epochs", "1", "--run", run},
                              .cpu = 0},
                             std::chrono::minutes(10)));
  const double seconds = ChildrenCpuSeconds() - start;
  std::error_code ignored;
  std::filesystem::remove_all(run, ignored);
  if (!result.state.Success()) {
    return Status::Error(Code::kInternal, arguments.command + ": " + result.state.Describe());
  }
  return static_cast<double>(arguments.words) / seconds;
}

Result<double> RunPaceline(const Arguments& arguments, std::size_t dim,
                           const data::TextCorpus& corpus, const std::filesystem::path& folder) {
  if (arguments.command.empty()) return RunOurs(arguments, dim, corpus);
  return RunTrainCommand(arguments, folder);
}

Status Measure(const Arguments& arguments, std::size_t dim, const data::TextCorpus& corpus,
               const std::filesystem::path& folder) {
  std::vector<double> ours, classic;
  for (std::uint64_t round = 0; round <= arguments.rounds; ++round) {
    PACELINE_ASSIGN(const double our_rate, RunPaceline(arguments, dim, corpus, folder));
    double classic_rate = 0;
    if (!arguments.classic.empty()) {
      PACELINE_ASSIGN(classic_rate, RunClassic(arguments, dim, folder / "text"));
    }
    if (round == 0) continue;  // warms up
    ours.push_back(our_rate);
    classic.push_back(classic_rate);
  }
  const auto print = [&](const char* name, const Summary& rate) {
    fmt::print("dim {:4}  {:9}  median {:9.0f} words/s  MAD {:4.1f} %  min {:.0f} max {:.0f}\n",
               dim, name, rate.median, 100 * rate.RelativeSpread(), rate.min, rate.max);
  };
  print("paceline", Summarize(ours));
  if (arguments.classic.empty()) return {};
  print("classic", Summarize(classic));
  const Summary ratio = PairedRatio(ours, classic);
  fmt::print("dim {:4}  ratio      median {:.2f}  min {:.2f} max {:.2f}  rounds {}\n", dim,
             ratio.median, ratio.min, ratio.max, ratio.count);
  return {};
}

Status Run(const Arguments& arguments, const std::filesystem::path& folder) {
  const std::filesystem::path text = folder / "text";
  PACELINE_TRY(WriteText(arguments, text));
  PACELINE_ASSIGN(const auto corpus,
                  data::TextCorpus::Open(folder, {.min_count = arguments.min_count}));
  fmt::print("{} words, vocabulary {}, window {}, negatives {}, subsampling {}\n", arguments.words,
             corpus->vocabulary().size(), arguments.window, arguments.negatives,
             arguments.subsample);
  for (const std::size_t dim : arguments.dims) {
    PACELINE_TRY(Measure(arguments, dim, *corpus, folder));
  }
  return {};
}

int Main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("Word2Vec on one thread, in turns with the classic algorithm");
  app.add_option("--classic", arguments.classic, "program built from word2vec_classic.c");
  app.add_option("--command", arguments.command,
                 "paceline, to run `paceline train word2vec` as it is (dim 300, window 6)");
  app.add_option("--dim", arguments.dims, "sizes of embeddings")->check(CLI::Range(1, 10'000));
  app.add_option("--words", arguments.words)->check(CLI::Range(1'000, 1'000'000'000));
  app.add_option("--vocabulary", arguments.vocabulary)->check(CLI::Range(10, 10'000'000));
  app.add_option("--rounds", arguments.rounds)->check(CLI::Range(1, 1'000));
  app.add_option("--batch", arguments.batch, "sentences")->check(CLI::Range(1, 1'000'000));
  app.add_option("--window", arguments.window)->check(CLI::Range(1, 100));
  app.add_option("--negatives", arguments.negatives)->check(CLI::Range(0, 100));
  CLI11_PARSE(app, argc, argv);
  if (!arguments.command.empty()) {
    arguments.dims = {300};
    arguments.window = 6;
    arguments.min_count = data::TextCorpusOptions{}.min_count;
  }
  std::string folder = std::filesystem::temp_directory_path() / "word2vec_bench.XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) {
    fmt::print(stderr, "word2vec_bench: {}: cannot be made\n", folder);
    return 1;
  }
  const Status status = Run(arguments, folder);
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  if (status.ok()) return 0;
  fmt::print(stderr, "word2vec_bench: {}\n", status.message());
  return ExitCode(status.code());
}

}  // namespace

}  // namespace paceline

int main(int argc, char** argv) { return paceline::Main(argc, argv); }
