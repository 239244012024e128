#pragma once

#include <vector>

#include "model/catalog.h"

namespace paceline::model {

// Convolutional models made of layer_graph.h: each as published, then small ones of the same kind
// for tests and trials, which learn 32x32 images within a minute.
std::vector<ModelCard> CnnCards();

}  // namespace paceline::model
