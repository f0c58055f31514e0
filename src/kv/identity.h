/* identity.h - what the bytes of a stored state mean, as bytes: everything about a layer that state
 * depends on and nothing else, in one form. Two configs store the same exactly where these are
 * equal. It goes into files (docs/kv-files.md), so that it never changes without another version
 * there. */
#ifndef KV_IDENTITY_H
#define KV_IDENTITY_H

#include "base/hash.h"
#include "kv/config.h"

enum { KV_IDENTITY_BYTES = 64 };

/* What has no meaning for a layer is 0. How positions are cut into pages is not in it. */
void kv_identity_layer(const kv_config *c, uint32_t layer, unsigned char record[KV_IDENTITY_BYTES]);

/* SHA-256 over the layers in order. */
weft_status kv_identity(const kv_config *c, unsigned char digest[32], weft_error *err);

#endif
