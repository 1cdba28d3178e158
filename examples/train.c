/* Defines a small network, plans its training step within 32 MiB, trains it:
   cc train.c $(pkg-config --cflags --libs neap) -o train && ./train */
#include <neap/neap.h>
#include <stdio.h>

static neap_graph *define(neap_diag *diag)
{
    neap_network *net;
    neap_graph *graph = NULL;
    if (neap_network_create(NULL, "small", NEAP_F32, &net, diag) != NEAP_OK)
        return NULL;
    neap_tensor x = neap_net_input(net, "images", NEAP_F32, 4, (int64_t[]){32, 3, 32, 32});
    neap_tensor labels = neap_net_input(net, "labels", NEAP_I64, 1, (int64_t[]){32});
    neap_conv2d conv = {.channels = 32, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1};
    for (int i = 0; i < 6; i++) {
        neap_net_enter(net, "block%d", i);
        x = neap_net_batch_norm(net, "norm", neap_net_conv2d(net, "conv", x, &conv), 1e-5);
        x = neap_net_relu(net, "relu", x);
        neap_net_leave(net);
    }
    x = neap_net_flatten(net, "flat", neap_net_adaptive_avg_pool2d(net, "pool", x, 1, 1), 1);
    x = neap_net_cross_entropy(net, "loss", neap_net_linear(net, "out", x, 10, true), labels);
    neap_training training;
    neap_training_init(&training);
    training.optimizer = NEAP_OPTIMIZER_SGD;
    neap_network_finish(net, x, &training, &graph, diag);
    neap_network_destroy(net);
    return graph;
}

int main(void)
{
    neap_diag diag = {.message = ""};
    neap_backend *backend = NULL;
    neap_solution *solution = NULL;
    neap_trainer *trainer = NULL;
    neap_train_report report = {.step = 0};
    neap_graph *graph = define(&diag);
    neap_request request;
    neap_request_init(&request, graph, "rotor");
    request.budget = 32LL << 20;
    request.alignment = NEAP_RUN_ALIGNMENT;
    if (!graph || neap_backend_open(NULL, neap_backends_default(), 0, &backend, &diag) ||
        neap_profile(NULL, graph, backend, NULL, NULL, &diag) ||
        neap_solve(NULL, &request, &solution, &diag) || !neap_solution_plan(solution) ||
        neap_trainer_create(NULL, graph, neap_solution_plan(solution), backend, NULL, &trainer,
                            &diag))
        goto done;
    while (report.step < 20 && neap_trainer_step(trainer, &report, &diag) == NEAP_OK)
        printf("step %2d  loss %.4f\n", (int)report.step, report.loss);
done:
    if (report.step < 20)
        fprintf(stderr, "%s\n", *diag.message ? diag.message : neap_solution_message(solution));
    neap_trainer_destroy(trainer);
    neap_solution_destroy(solution);
    neap_backend_close(backend);
    neap_graph_destroy(graph);
    return report.step < 20;
}
