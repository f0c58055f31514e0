/* cross.c - positions of an encoder: written once, all at once (kv/cross.c), and every query of the
 * decoder sees all of them, whatever its own position. */
#include "kv/layouts/spans.h"

const kv_layout KV_LAYOUT_ROW_CROSS = {"cross", KV_LAYOUT_CROSS, kv_keep_all, kv_slots_all,
                                       kv_list_pair};
