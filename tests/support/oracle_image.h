/* oracle_image.h - of the oracle: operations that models with images are made of. */
#ifndef SUPPORT_ORACLE_IMAGE_H
#define SUPPORT_ORACLE_IMAGE_H

#include "support/graph_oracle.h"

/* feed, replace, standardize and take: y and ye [n, cols]. */
void oracle_run_image(const graph_oracle *o, const graph_value *v, double *y, double *ye);

#endif
