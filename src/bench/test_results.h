#pragma once

#include "bench/results.h"

namespace paceline::bench {

// Two systems that ran at two batch sizes and one that is not installed. For tests.
inline SingleNodeResults SampleResults() {
  SingleNodeResults results;
  results.provenance = {.command_line = "paceline bench single-node --batches 32,128",
                        .started_unix = 1'700'000'000,
                        .commit = "0123abcd",
                        .dirty = true};
  results.machine.cpu_model = "Example CPU";
  results.machine.cpu_flags = {"avx2", "fma"};
  results.machine.cores = 2;
  results.machine.cores_online = 2;
  results.machine.memory_bytes = 16'000'000'000;
  results.machine.os = "Debian GNU/Linux 12 (bookworm)";
  results.machine.kernel = "Linux 6.1.0 x86_64";
  results.config = {.cpu = 1, .rounds = 3};
  results.systems = {{.name = "Paceline", .version = "0.1.0", .params = 15'254'602, .tensors = 60},
                     {.name = "PyTorch", .version = "1.13.1", .params = 15'254'602, .tensors = 60},
                     {.name = "tensorflow", .unavailable = "tensorflow: not installed"}};
  results.batches = {
      {.batch = 32,
       .systems = {{{0.5, 0.64, 0.4}, 32, 800'000'000, 2.25},
                   {{1, 1.28, 1}, 32, 900'000'000, {}},
                   {}}},
      {.batch = 128,
       .systems = {
           {{2, 2, 2}, 128, 1'000'000'000, 2.5}, {{4, 4, 5}, 128, 2'000'000'000, 2.5}, {}}}};
  return results;
}

}  // namespace paceline::bench
