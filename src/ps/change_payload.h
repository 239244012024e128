#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "ps/job_spec.h"

// Payloads of changes that are not messages; docs/formats.md describes them. What cannot be decoded
// is kBadCheckpoint.
namespace paceline::ps {

// Which server it is, and its job.
struct ServerJob {
  std::uint32_t index = 0;
  std::uint32_t servers = 1;
  JobSpec spec;
};
std::vector<std::byte> EncodeServerJob(const ServerJob& job);
Result<ServerJob> DecodeServerJob(std::span<const std::byte> bytes);

}  // namespace paceline::ps
