"""The table of layers: the authors' own summaries, line by line, and sums that are right."""

import pytest

from laptime.trainings.workloads import CATALOGUE
from laptime.trainings.workloads.catalogue import list_layers

# As the first experiment's printed summary has them: Keras's model.summary() of TensorFlow 2.7.
SCENES_AS_KERAS_PRINTS = [
    ((148, 148, 32), 896),
    ((74, 74, 32), 0),
    ((72, 72, 64), 18_496),
    ((36, 36, 64), 0),
    ((82_944,), 0),
    ((512,), 42_467_840),
    ((512,), 0),
    ((64,), 32_832),
    ((64,), 0),
    ((8,), 520),
]


@pytest.mark.parametrize("name", CATALOGUE)
def test_rows_sum_up_to_the_published_number_of_parameters(name):
    """Folded or not, no weight is lost and none counted twice."""
    workload = CATALOGUE[name]
    assert workload.parameters == sum(row.parameters for row in list_layers(workload))


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_layer_has_its_row_and_the_last_gives_the_outputs(name):
    """One row a layer, in order; what comes out at the end is what the labels are held against."""
    workload = CATALOGUE[name]
    rows = list_layers(workload)
    assert len(workload.layers) == len(rows)
    assert workload.outputs == rows[-1].output_shape


def test_the_first_experiments_table_is_the_one_that_it_printed():
    """Shape and parameters of each of its ten layers."""
    assert [
        (row.output_shape, row.parameters) for row in list_layers(CATALOGUE["scenes-cnn"])
    ] == SCENES_AS_KERAS_PRINTS


def test_a_layer_is_named_with_what_differs_from_the_plain_one():
    """Filters, kernel, stride, padding, bias and activation where there is one."""
    names = [[row.layer for row in list_layers(CATALOGUE[name])] for name in ("scenes-cnn", "cifar-cnn", "plates-cnn")]
    assert names[0][:7:2] == ["conv 32 3x3 relu", "conv 64 3x3 relu", "flatten", "dropout 0.2"]
    assert names[1][:3] == ["conv 32 3x3 same", "conv 32 3x3 same", "max pool 2x2"]
    assert names[2][-5:] == ["reshape", "dense 256 relu", "dense 8", "swap axes", "dense 36"]


def test_densenets_blocks_are_folded_into_a_row_each():
    """DenseNet121's 120 convolutions in eight rows; shapes and sums are those of torchvision's densenet121."""
    rows = list_layers(CATALOGUE["pets-densenet"])
    assert rows[0].layer == "conv 64 7x7 stride 2 padding 3 no bias"
    assert rows[3].layer == "max pool 3x3 stride 2 padding 1"
    assert [(row.output_shape, row.parameters) for row in rows[4:11]] == [
        ((56, 56, 256), 335_040),
        ((28, 28, 128), 33_280),
        ((28, 28, 512), 919_680),
        ((14, 14, 256), 132_096),
        ((14, 14, 1024), 2_837_760),
        ((7, 7, 512), 526_336),
        ((7, 7, 1024), 2_158_080),
    ]
    assert rows[4].layer == (
        "dense block: 6 x (batch norm, relu, conv 128 1x1, batch norm, relu, conv 32 3x3 same), no bias"
    )
    assert rows[5].layer == "transition: batch norm, relu, conv 128 1x1 no bias, average pool 2x2"
