"""Node tests of the ONNX project that must pass, one or two for each kind of node. bench/onnx_node_tests has all of them."""

from __future__ import annotations

import numpy as np
import onnx_support
import pytest

bench = onnx_support.bench("onnx_node_tests")

NAMES = """
    add add_bcast sub mul div max_example min_example relu leakyrelu sigmoid tanh exp log sqrt erf softplus gelu_tanh_1
    clip clip_min_greater_than_max prelu_broadcast softmax_axis_1 matmul_2d matmul_4d gemm_all_attributes
    gemm_transposeB gemm_default_vector_bias basic_conv_with_padding conv_with_strides_and_asymmetric_padding convtranspose
    maxpool_2d_default maxpool_2d_same_upper averagepool_2d_pads globalaveragepool batchnorm_example batchnorm_epsilon
    layer_normalization_default_axis reduce_mean_keepdims_random reduce_sum_do_not_keepdims_random reduce_max_empty_set
    reshape_reordered_all_dims flatten_axis2 transpose_all_permutations_3 squeeze unsqueeze_two_axes concat_3d_axis_1
    split_equal_parts_2d slice slice_neg gather_1 expand_dim_changed tile shape constantofshape_float_ones cast_FLOAT_to_DOUBLE
    where_example range_int32_type_negative_delta identity dropout_default lstm_defaults lstm_bidirectional constant_pad
    resize_downsample_sizes_linear_pytorch_half_pixel resize_upsample_scales_linear attention_4d attention_bidirectional_window
    attention_4d_with_qk_matmul batchnorm_example_training_mode layer_normalization_2d_axis0
    isinf isinf_positive isinf_negative gru_defaults gru_with_initial_bias simple_rnn_defaults einsum_batch_matmul reflect_pad
    edge_pad scatternd scatter_elements_without_axis gather_elements_0 gathernd_example_float32 slice_negative_axes lrn
    resize_upsample_scales_cubic resize_upsample_sizes_nearest_axes_2_3 l2normalization_axis_0 swish sce_mean nllloss_NC
    attention_4d_attn_mask attention_4d_attn_mask_bool attention_4d_gqa attention_4d_diff_heads_sizes group_normalization_example
""".split()


@pytest.fixture(scope="module")
def cases() -> dict:
    return {case.name: case for case in bench.cases("")}


def test_nodes_compute_what_onnx_says(programs, cases, tmp_path) -> None:
    results = {name: bench.run_case(cases[f"test_{name}"], str(tmp_path)) for name in NAMES if f"test_{name}" in cases}
    assert len(results) > 0.9 * len(NAMES)
    wrong = {name: why for name, (result, why) in results.items() if result == "failed"}
    assert not wrong
    refused = [name for name, (result, _) in results.items() if result == "skipped"]
    assert len(refused) < 0.2 * len(results), refused


def test_another_number_fails(programs, cases, tmp_path) -> None:
    case = cases["test_relu"]
    inputs, outputs = case.data_sets[0]
    wrong = [np.asarray(output) + 0.01 for output in bench.as_arrays(outputs)]
    assert "differs" in bench.run_set(case, (inputs, wrong), str(tmp_path))
