#pragma once

#include <string_view>

#include "base/status.h"
#include "model/layer_graph.h"

namespace paceline::model {

// The layers of a convolutional model of the catalogue; kNotFound when it is none.
Result<LayerGraph> CnnGraph(std::string_view name);

}  // namespace paceline::model
