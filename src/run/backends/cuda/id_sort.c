/* Workspace of a sort: two arrays of keys and positions, counters of tiles and digits. */
#include "run/backends/cuda/id_sort.h"

#include "base/fail.h"

enum { DIGIT_BITS = 8 };

embedding_ids neap_cuda_ids(const run_array *ids, const run_array *rows, uint32_t first)
{
    embedding_ids made = {.is_i64 = ids->dtype == NEAP_I64, .count = neap_run_array_elements(ids)};
    i32 rank = 0;
    for (uint32_t d = 0; d < ids->rank; d++) {
        i64 n = ids->shape[d], step = ids->strides[d], row_step = rows->strides[first + d];
        if (n == 1)
            continue;
        if (rank > 0 && made.strides[rank - 1] == n * step &&
            made.row_strides[rank - 1] == n * row_step) {
            made.shape[rank - 1] *= n;
        } else {
            made.shape[rank] = n;
            rank++;
        }
        made.strides[rank - 1] = step;
        made.row_strides[rank - 1] = row_step;
    }
    made.shape[0] = rank ? made.shape[0] : 1;
    made.rank = rank ? rank : 1;
    return made;
}

typedef struct sort_layout {
    int64_t tiles;
    int64_t keys[2], positions[2], counts; /* offsets in bytes */
    int64_t bytes;
} sort_layout;

static int64_t take_numbers(sort_layout *layout, int64_t count)
{
    int64_t offset = layout->bytes;
    layout->bytes += (count * (int64_t)sizeof(u32) + 63) / 64 * 64;
    return offset;
}

static sort_layout layout_of(int64_t ids)
{
    sort_layout l = {.tiles = (ids + EMBEDDING_TILE - 1) / EMBEDDING_TILE};
    for (int i = 0; i < 2; i++) {
        l.keys[i] = take_numbers(&l, ids);
        l.positions[i] = take_numbers(&l, ids);
    }
    l.counts = take_numbers(&l, l.tiles * EMBEDDING_THREADS);
    return l;
}

int64_t neap_cuda_id_sort_workspace(int64_t count)
{
    return layout_of(count).bytes;
}

/* Ids have no type of element: either kernel does. */
neap_status neap_cuda_id_sort_plan(cuda_backend *backend, const embedding_ids *ids, int64_t entries,
                                   cuda_id_sort *sort, neap_diag *diag)
{
    sort->ids = *ids;
    sort->entries = entries;
    NEAP_TRY(neap_cuda_find(backend, "embedding_count", NEAP_F32, &sort->count, diag));
    return neap_cuda_find(backend, "embedding_scatter", NEAP_F32, &sort->scatter, diag);
}

neap_status neap_cuda_id_sort_run(cuda_backend *backend, const cuda_id_sort *sort, const void *ids,
                                  void *workspace, cuda_sorted_ids *sorted, neap_diag *diag)
{
    unsigned char *bytes = workspace;
    sort_layout layout = layout_of(sort->ids.count);
    embedding_sort_params params = {.ids = sort->ids,
                                    .counts = (u32 *)(void *)(bytes + layout.counts),
                                    .entries = sort->entries,
                                    .tiles = (i32)layout.tiles,
                                    .trouble = backend->platform->trouble};
    cuda_dims dims = {.blocks = (uint32_t)layout.tiles, .threads = EMBEDDING_THREADS};
    params.ids.at = ids;
    for (int to = 0; params.shift == 0 || params.entries >> params.shift > 0;
         params.shift += DIGIT_BITS, to = !to) {
        params.sorted_keys = (u32 *)(void *)(bytes + layout.keys[to]);
        params.sorted_positions = (u32 *)(void *)(bytes + layout.positions[to]);
        NEAP_TRY(CUDA_LAUNCH(backend, sort->count, dims, &params, diag));
        NEAP_TRY(CUDA_LAUNCH(backend, sort->scatter, dims, &params, diag));
        params.keys = params.sorted_keys;
        params.positions = params.sorted_positions;
    }
    *sorted = (cuda_sorted_ids){params.keys, params.positions};
    return NEAP_OK;
}
