/* cache.h - where the program keeps what can be made again. */
#ifndef CLI_CACHE_H
#define CLI_CACHE_H

#include <stdbool.h>

enum { CACHE_FOLDER_BYTES = 4096 };

/* $XDG_CACHE_HOME/weft or $HOME/.cache/weft; made when it is not there and the model is a folder,
 * as only those have something to keep. false: there is none. */
bool cache_folder(const char *model, char folder[CACHE_FOLDER_BYTES]);

/* A folder that only the user may read; false: it is not there, and cannot be made. */
bool cache_make(const char *folder);

#endif
