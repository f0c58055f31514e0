/* oracle_attend.h - the operations over states with positions, for graph_oracle.c. */
#ifndef SUPPORT_ORACLE_ATTEND_H
#define SUPPORT_ORACLE_ATTEND_H

#include "support/graph_oracle.h"

/* What this graph stores for others must lie there. */
void oracle_store(const graph_oracle *o, const graph_value *v);

void oracle_attend(graph_oracle *o, const graph_value *v);

/* y and ye: lists, the bound of what a list begins with UNKNOWN where it is open. */
void oracle_select(graph_oracle *o, const graph_value *v, double *y, double *ye);

#endif
