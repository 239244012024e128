#pragma once

// Everything that a program with models of its own needs: docs/own-models.md.
#include "data/batch.h"
#include "train/wrapped_module.h"
#include "worker/worker_main.h"
