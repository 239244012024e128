#pragma once

namespace paceline::job {

// Turns SIGINT and SIGTERM into a request to stop after the current step: save, then exit 0. A
// second SIGINT ends the process at once with code 130. Signals belong to the process, so this is
// the one place with a global flag; main installs it once.
void InstallStopSignals();

// The signal that asked to stop, or 0.
int StopRequested();

}  // namespace paceline::job
