/* index.c - keys alone, by which positions of another state are chosen; every one is kept, and a
 * query at p sees [0, p]. */
#include "kv/layouts/spans.h"

const kv_layout KV_LAYOUT_ROW_INDEX = {"index", KV_LAYOUT_INDEX, kv_keep_all, kv_slots_all,
                                       kv_list_keys};
