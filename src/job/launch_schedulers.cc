// Launchers that start programs of any kind: MPI, Slurm, Kubernetes.
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "job/endpoint.h"
#include "job/launch_sources.h"
#include "job/slurm_list.h"

namespace paceline::job {

namespace {

// MPI connects its ranks itself. A program without MPI needs MASTER_ADDR from the user, or Slurm's
// list of hosts when srun has started the same ranks.
Result<Launch> RecognizeMpi(const LaunchVariables& variables, const char* source,
                            const RankNames& names) {
  if (!variables.Has(names.rank)) return Launch();
  PACELINE_ASSIGN(LaunchEnvironment launch, ReadRanks(variables, source, names));
  PACELINE_ASSIGN(launch.coordinator, ReadHostAndPort(variables, "MASTER_ADDR", "MASTER_PORT"));
  if (launch.coordinator.empty()) {
    PACELINE_ASSIGN(const Launch step, RecognizeSlurm(variables));
    if (step && step->world == launch.world && step->rank == launch.rank) {
      launch.coordinator = step->coordinator;
    }
  }
  return Launch(launch);
}

// Steps with these numbers are Slurm's own (slurm.h): the batch script is 0xfffffffb, the shell of
// an interactive allocation 0xfffffffa. Nobody has started the other tasks yet.
constexpr std::uint64_t kFirstSpecialStep = 0xfffffff0;

// Inside a batch script SLURM_PROCID=0 and SLURM_NTASKS=4 are set before srun has started
// anything: only a step with several tasks says that the other ranks exist. A step of one task is
// what `srun --pty` makes for a shell.
Result<bool> InsideSlurmStep(const LaunchVariables& variables) {
  if (!variables.Has("SLURM_PROCID")) return false;
  PACELINE_ASSIGN(const auto step, variables.Number("SLURM_STEP_ID"));
  PACELINE_ASSIGN(const auto tasks, variables.Number("SLURM_STEP_NUM_TASKS"));
  return step && *step < kFirstSpecialStep && tasks && *tasks > 1;
}

// Tasks of this host: entry SLURM_NODEID of the step's list.
Result<std::optional<std::uint64_t>> SlurmLocalWorld(const LaunchVariables& variables,
                                                     std::uint64_t world) {
  constexpr const char* kName = "SLURM_STEP_TASKS_PER_NODE";
  const auto text = variables.Text(kName);
  PACELINE_ASSIGN(const auto node, variables.Number("SLURM_NODEID"));
  if (!text || !node) return std::optional<std::uint64_t>();
  const auto tasks = ExpandTaskList(*text);
  if (!tasks.ok()) return tasks.status().Wrap(kName);
  if (std::accumulate(tasks->begin(), tasks->end(), std::uint64_t{0}) != world) {
    return variables.Wrong(kName, fmt::format("does not add up to {} tasks", world));
  }
  if (*node >= tasks->size()) return variables.Wrong("SLURM_NODEID", "no such host in the step");
  return std::optional((*tasks)[static_cast<std::size_t>(*node)]);
}

// First host of the step, where its rank 0 runs, and a port that other jobs on the same host are
// unlikely to have. MASTER_ADDR and MASTER_PORT overrule.
Result<std::string> SlurmCoordinator(const LaunchVariables& variables) {
  PACELINE_ASSIGN(auto host, variables.Host("MASTER_ADDR"));
  PACELINE_ASSIGN(auto port, variables.Port("MASTER_PORT"));
  if (!host) {
    const bool of_step = variables.Has("SLURM_STEP_NODELIST");
    const char* name = of_step ? "SLURM_STEP_NODELIST" : "SLURM_JOB_NODELIST";
    const auto list = variables.Text(name);
    if (!list) return variables.Missing(name, "SLURM_PROCID");
    auto hosts = ExpandNodeList(*list);
    if (!hosts.ok()) return hosts.status().Wrap(name);
    host = std::move(hosts->front());
  }
  if (!port) {
    PACELINE_ASSIGN(const std::uint64_t job,
                    variables.RequiredNumber("SLURM_JOB_ID", "SLURM_PROCID"));
    port = static_cast<std::uint16_t>(20000 + job % 20000);
  }
  return Endpoint{*host, *port}.ToString();
}

// The pods of job X are called, ... (and X-0.SUBDOMAIN with a headless service).
Result<std::string> IndexedJobHost(const LaunchVariables& variables, Rank index) {
  PACELINE_ASSIGN(const auto name, variables.Host("HOSTNAME"));
  if (!name) return std::string();
  const std::string ending = fmt::format("-{}", index.value());
  const std::string pod = name->substr(0, name->find('.'));
  if (pod.size() <= ending.size() || !pod.ends_with(ending)) {
    return variables.Wrong("HOSTNAME", fmt::format("does not end in {} as the pod of a job with "
                                                   "JOB_COMPLETION_INDEX={} does; set "
                                                   "PACELINE_COORDINATOR=HOST:PORT",
                                                   ending, index.value()));
  }
  PACELINE_ASSIGN(const auto subdomain, variables.Host("PACELINE_SUBDOMAIN"));
  return pod.substr(0, pod.size() - ending.size()) + "-0" + (subdomain ? "." + *subdomain : "");
}

// The specification of a job is not visible from inside: the user repeats its size.
const char* IndexedJobWorldName(const LaunchVariables& variables) {
  for (const char* name : {"PACELINE_WORLD", "PET_NNODES", "WORLD_SIZE"}) {
    if (variables.Has(name)) return name;
  }
  return "PACELINE_WORLD";
}

Result<std::string> IndexedJobCoordinator(const LaunchVariables& variables, Rank index) {
  PACELINE_ASSIGN(std::string given, ReadHostAndPort(variables, "MASTER_ADDR", "MASTER_PORT"));
  if (!given.empty() || variables.Has("PACELINE_COORDINATOR")) return given;
  PACELINE_ASSIGN(std::string host, IndexedJobHost(variables, index));
  PACELINE_ASSIGN(const auto port, variables.Port("MASTER_PORT"));
  if (host.empty()) return std::string();
  return Endpoint{std::move(host), port.value_or(kDefaultCoordinatorPort)}.ToString();
}

}  // namespace

Result<Launch> RecognizeOpenMpi(const LaunchVariables& variables) {
  return RecognizeMpi(variables, "open-mpi",
                      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                       "OMPI_COMM_WORLD_LOCAL_SIZE"});
}

Result<Launch> RecognizeMpich(const LaunchVariables& variables) {
  return RecognizeMpi(variables, "mpich",
                      {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"});
}

Result<Launch> RecognizeSlurm(const LaunchVariables& variables) {
  PACELINE_ASSIGN(const bool inside, InsideSlurmStep(variables));
  if (!inside) return Launch();
  PACELINE_ASSIGN(
      LaunchEnvironment launch,
      ReadRanks(variables, "slurm", {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"}));
  PACELINE_ASSIGN(launch.local_world, SlurmLocalWorld(variables, launch.world));
  PACELINE_ASSIGN(launch.coordinator, SlurmCoordinator(variables));
  PACELINE_ASSIGN(const auto restarts, variables.Number("SLURM_RESTART_COUNT"));
  launch.restarts = restarts.value_or(0);
  return Launch(launch);
}

Result<Launch> RecognizeIndexedJob(const LaunchVariables& variables) {
  if (!variables.Has("JOB_COMPLETION_INDEX")) return Launch();
  PACELINE_ASSIGN(LaunchEnvironment launch,
                  ReadRanks(variables, "kubernetes-indexed-job",
                            {"JOB_COMPLETION_INDEX", IndexedJobWorldName(variables)}));
  if (launch.world > 1) {
    PACELINE_ASSIGN(launch.coordinator, IndexedJobCoordinator(variables, launch.rank));
  }
  return Launch(launch);
}

}  // namespace paceline::job
