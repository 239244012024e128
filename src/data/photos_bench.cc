// A step server (bench/peers/README.md) that makes training batches of photographs in one thread:
// it reads, decodes, cuts, resizes and normalises, and trains nothing. A step is one batch. Usage:
// photos_bench --data FOLDER [--batch N] [--size N], then "run K" and "quit". `photos_bench --make
// FOLDER` writes 200 noisy 500x375 photographs of 1 class to try it on.
#include <sys/resource.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/json_writer.h"
#include "base/rng.h"
#include "data/image_source.h"
#include "data/image_test_util.h"

namespace paceline::data {
namespace {

// About 57 kB, half of an average photograph of ImageNet: coarse and fine structure.
std::string Photograph(std::uint64_t number) {
  CounterRng rng(1, Purpose::kSynthetic, number, 0);
  const std::uint32_t a = 20 + rng.Below(60), b = 20 + rng.Below(60);
  return EncodeJpeg({.width = 500,
                     .height = 375,
                     .quality = 90,
                     .pixel = [&](std::size_t c, std::size_t x, std::size_t y) {
                       const std::size_t coarse = (x / a * 53 + y / b * 97 + c * 31) % 160;
                       return static_cast<std::uint8_t>(coarse + 40 + rng.Below(24));
                     }});
}

int Make(const std::filesystem::path& folder) {
  for (std::uint64_t i = 0; i < 200; ++i) {
    const auto path = folder / (i < 190 ? "train" : "val") / "class";
    std::filesystem::create_directories(path);
    std::ofstream(path / fmt::format("{:03}.jpg", i), std::ios::binary) << Photograph(i);
  }
  return 0;
}

int Serve(const std::string& folder, std::size_t batch, std::size_t size) {
  auto sources = OpenImages({.shape = {3, size, size}}, folder);
  if (!sources.ok()) {
    std::cerr << sources.status().message() << "\n";
    return ExitCode(sources.status().code());
  }
  const Clock& clock = SystemClock();
  std::cout << JsonObject()
                   .Add("ready", true)
                   .Add("system", "Paceline")
                   .Add("version", PACELINE_VERSION)
                   .Add("model", "photos")
                   .Add("batch", std::uint64_t{batch})
                   .Add("threads", 1)
                   .Text()
            << std::endl;
  BatchBuffer buffer;
  std::vector<SampleRef> samples(batch);
  std::uint64_t next = 0, step = 0;
  std::string line;
  while (std::getline(std::cin, line) && line != "quit") {
    std::istringstream words(line);
    std::string command;
    std::uint64_t steps = 0;
    words >> command >> steps;
    const Instant started = clock.Now();
    for (std::uint64_t i = 0; i < steps; ++i, ++step) {
      for (std::size_t s = 0; s < batch; ++s) samples[s] = {next++ % sources->train->size(), s};
      const Status filled = sources->train->Fill(
          {.samples = samples, .training = true, .seed = 1, .step = Step(step)}, buffer);
      if (!filled.ok()) {
        std::cerr << filled.message() << "\n";
        return ExitCode(filled.code());
      }
    }
    std::cout << JsonObject()
                     .Add("seconds", ToSeconds(clock.Now() - started))
                     .Add("samples", steps * batch)
                     .Text()
              << std::endl;
  }
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  std::cout << JsonObject().Add("max_rss_bytes", std::int64_t{usage.ru_maxrss} * 1024).Text()
            << std::endl;
  return 0;
}

}  // namespace
}  // namespace paceline::data

int main(int argc, char** argv) {
  std::map<std::string, std::string> flags{{"--batch", "32"}, {"--size", "224"}};
  for (int i = 1; i + 1 < argc; i += 2) flags[argv[i]] = argv[i + 1];
  if (flags.contains("--make")) return paceline::data::Make(flags["--make"]);
  if (argc % 2 == 0 || !flags.contains("--data")) {
    std::cerr << "usage: photos_bench --data FOLDER [--batch N] [--size N], or --make FOLDER\n";
    return 2;
  }
  return paceline::data::Serve(flags["--data"], std::stoul(flags["--batch"]),
                               std::stoul(flags["--size"]));
}
