#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "job/launch_environment.h"
#include "job/launch_variables.h"

// The launchers that RecognizeLaunch() knows, one function each: nothing when the variable with the
// rank is not set. The coordinator may stay empty; the caller decides whether that is an error.
namespace paceline::job {

using Launch = std::optional<LaunchEnvironment>;

Result<Launch> RecognizeTorch(const LaunchVariables& variables);
Result<Launch> RecognizePet(const LaunchVariables& variables);
Result<Launch> RecognizeOpenMpi(const LaunchVariables& variables);
Result<Launch> RecognizeMpich(const LaunchVariables& variables);
Result<Launch> RecognizeSlurm(const LaunchVariables& variables);
Result<Launch> RecognizeHorovod(const LaunchVariables& variables);
Result<Launch> RecognizePaddle(const LaunchVariables& variables);
Result<Launch> RecognizePaddleServer(const LaunchVariables& variables);
Result<Launch> RecognizeTensorflow(const LaunchVariables& variables);
Result<Launch> RecognizeDmlc(const LaunchVariables& variables);
Result<Launch> RecognizeIndexedJob(const LaunchVariables& variables);

// "host:port,host:port" of a variable; empty when it is not set. `port`: what is missing behind
// each host.
Result<std::vector<std::string>> ReadServerList(const LaunchVariables& variables, const char* name,
                                                std::string_view port = "");
// Of PACELINE_SERVERS, and of any of Paddle's names.
Result<std::vector<std::string>> OwnServers(const LaunchVariables& variables);
Result<std::vector<std::string>> PaddleServers(const LaunchVariables& variables);

// Names of variables; a null pointer where a source has none.
struct RankNames {
  const char* rank;
  const char* world;
  const char* local_rank = nullptr;
  const char* local_world = nullptr;
};

// The four numbers, checked against each other.
Result<LaunchEnvironment> ReadRanks(const LaunchVariables& variables, std::string source,
                                    const RankNames& names);

// "host:port" from two variables; empty without the host, the default port without the port.
Result<std::string> ReadHostAndPort(const LaunchVariables& variables, const char* host_name,
                                    const char* port_name);

}  // namespace paceline::job
