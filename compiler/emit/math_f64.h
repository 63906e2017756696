// Elementary functions of f64.
#pragma once

#include "compiler/emit/emit.h"

ir transcendental_f64(emitter *e, tile_op op, const ir *args);
