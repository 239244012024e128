// paceline-worker: the trainer, the only program that links libtorch. `paceline train` starts it
// with the same arguments and the run directory made explicit.
#include "worker/worker_main.h"

int main(int argc, char** argv) { return paceline::WorkerMain(argc, argv); }
