/* full.c - every position is kept: a query at p sees [0, p]. */
#include "kv/layouts/spans.h"

const kv_layout KV_LAYOUT_ROW_FULL = {"full", KV_LAYOUT_FULL, kv_keep_all, kv_slots_all,
                                      kv_list_pair};
