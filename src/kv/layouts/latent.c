/* latent.c - one record a position is key and value at once; every one is kept, and a query at p
 * sees [0, p]. */
#include "kv/layouts/spans.h"

const kv_layout KV_LAYOUT_ROW_LATENT = {"latent", KV_LAYOUT_LATENT, kv_keep_all, kv_slots_all,
                                        kv_list_keys};
