#pragma once

#include <vector>

#include "model/catalog.h"

namespace paceline::model {

// Models with embedding tables, computed by src/sparse: each as published, then a small one of the
// same kind for tests and trials. The sizes of tables are those of the published data; a run on
// other data has tables of its own size.
std::vector<ModelCard> SparseCards();

}  // namespace paceline::model
