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

// Rows of one table that were made because they were touched often enough.
struct AdmittedRows {
  std::uint32_t table = 0;
  std::vector<std::int64_t> ids;

  friend bool operator==(const AdmittedRows&, const AdmittedRows&) = default;
};
std::vector<std::byte> EncodeAdmitted(const AdmittedRows& rows);
Result<AdmittedRows> DecodeAdmitted(std::span<const std::byte> bytes);

}  // namespace paceline::ps
