#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "bench/html.h"
#include "bench/results.h"
#include "job/machine.h"

namespace paceline::bench {

// What the reports of all training benchmarks say in the same words.

std::string FormatTime(std::int64_t unix_seconds);  // "2023-11-14 22:13 UTC"
std::string ModelTitle(std::string model);          // "VGG16": people write it so
std::string OrUnknown(const std::string& text);

using Facts = std::vector<std::pair<std::string, std::string>>;
// When, from which sources and on which machine.
Facts SourceFacts(const Provenance& source, const job::Machine& machine);
// "PyTorch": "1.13.1; 15254602 parameters in 60 tensors", or why it is not there.
std::pair<std::string, std::string> SystemFact(const SystemInfo& system);

// Why the figures are incomplete and what makes them doubtful; empty when nothing does.
PageSection NoticeSection(const std::string& failure, std::vector<std::string> warnings,
                          const std::vector<SystemInfo>& systems);

}  // namespace paceline::bench
