#pragma once

#include <string>
#include <vector>

// Each command takes the arguments after its name and returns the exit code.
namespace paceline::cli {

int RunTrain(const std::vector<std::string>& arguments);
int RunLaunch(const std::vector<std::string>& arguments);
int RunCoordinator(const std::vector<std::string>& arguments);
int RunServer(const std::vector<std::string>& arguments);
int RunBench(const std::vector<std::string>& arguments);
int RunScalingBench(const std::vector<std::string>& arguments);   // bench scaling
int RunRecoveryBench(const std::vector<std::string>& arguments);  // bench recovery
int RunPerf(const std::vector<std::string>& arguments);
int RunPsPerf(const std::vector<std::string>& arguments);     // perf ps
int RunTablePerf(const std::vector<std::string>& arguments);  // perf table
int RunStatus(const std::vector<std::string>& arguments);
int RunTop(const std::vector<std::string>& arguments);
int RunAudit(const std::vector<std::string>& arguments);
int RunExport(const std::vector<std::string>& arguments);
int RunModels(const std::vector<std::string>& arguments);
int RunDoctor(const std::vector<std::string>& arguments);
int RunVersion(const std::vector<std::string>& arguments);

}  // namespace paceline::cli
