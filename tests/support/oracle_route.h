/* oracle_route.h - the graph oracle's route. */
#ifndef SUPPORT_ORACLE_ROUTE_H
#define SUPPORT_ORACLE_ROUTE_H

#include "support/graph_oracle.h"

/* Which experts a token goes to is not known where bounds overlap: then its bounds are this. */
#define ORACLE_UNKNOWN 1e30

/* Experts and weights of each token as graph.h's route has them, and the bounds of the weights. */
void oracle_route(const graph_oracle *o, const graph_value *v, double *y, double *ye);

#endif
