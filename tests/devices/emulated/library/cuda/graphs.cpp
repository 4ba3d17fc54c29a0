// Graphs: lists of what was issued during capture, in that order.
#include "../emulator.h"

namespace emulator {

API int cudaGraphInstantiate(void **made, void *graph, unsigned long long) {
    *made = new Graph(*(Graph *)graph);
    return success;
}

API int cudaGraphInstantiate_v12000(void **made, void *graph, unsigned long long flags) {
    return cudaGraphInstantiate(made, graph, flags);
}

API int cudaGraphInstantiateWithFlags(void **made, void *graph, unsigned long long flags) {
    return cudaGraphInstantiate(made, graph, flags);
}

API int cudaGraphDestroy(void *graph) {
    delete (Graph *)graph;
    return success;
}

API int cudaGraphExecDestroy(void *graph) {
    return issue(nullptr, [graph] { cudaGraphDestroy(graph); });  // it may have been launched
}
API int cudaGraphUpload(void *, void *) { return success; }

API int cudaGraphLaunch(void *graph, void *stream) {
    Graph *launched = (Graph *)graph;
    return issue(stream, [launched] {
        counts.graph_launches++;
        counts.graph_nodes += launched->nodes.size();
        for (const Work &work : launched->nodes) work();
    });
}

API int cudaGraphGetNodes(void *graph, void **, size_t *count) {
    *count = ((Graph *)graph)->nodes.size();
    return success;
}

}  // namespace emulator
