// SPDX-License-Identifier: GPL-2.0
/* For the types of flow.h alone, which reach Rust with this object. It is never loaded. */
#include "flow.h"

const volatile struct layouts layouts = {};
