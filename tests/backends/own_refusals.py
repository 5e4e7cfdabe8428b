"""What functions of users return that is no training, or none that can be run: each is refused in words."""

import torch
from own_kinds import DICTS, PAIRS, ROWS, Output, Scoring, net, plain_training
from torch import nn
from torch.nn import functional

import laptime


class Trainer:
    """As Hugging Face's."""

    def __init__(self):
        self.model = net()

    def get_train_dataloader(self):
        return PAIRS

    def train(self):
        raise NotImplementedError


def a_trainer():
    return Trainer()


def a_model():
    return net()


def model_and_data():
    return net(), PAIRS


def a_generator():
    return plain_training(net(), (pair for pair in PAIRS), functional.cross_entropy)


def a_data_set():
    class Items:
        def __len__(self):
            return 3

        def __getitem__(self, number):
            return PAIRS[number]

    return plain_training(net(), Items(), functional.cross_entropy)


def no_data():
    return plain_training(net(), None, functional.cross_entropy)


def makes_no_batches():
    return plain_training(net(), lambda: 3, functional.cross_entropy)


def no_loss_anywhere():
    return plain_training(net(), ROWS)


def too_many_parts():
    return plain_training(net(), [(*pair, pair[1]) for pair in PAIRS], functional.cross_entropy)


def unknown_key():
    return plain_training(Scoring(Output), [{**batch, "index": 1} for batch in DICTS])


def loss_of_many():
    return plain_training(
        net(), PAIRS, lambda outputs, targets: functional.cross_entropy(outputs, targets, reduction="none")
    )


def loss_class():
    return plain_training(net(), PAIRS, nn.CrossEntropyLoss)


def two_optimizers():
    model = net()
    both = [torch.optim.SGD(model.parameters()), torch.optim.Adam(model.parameters())]
    return laptime.Training(model, functional.cross_entropy, both, PAIRS)


def a_schedule():
    given = plain_training(net(), PAIRS, functional.cross_entropy)
    schedule = torch.optim.lr_scheduler.ExponentialLR(given.optimizer, 0.5)
    return laptime.Training(given.model, given.loss, schedule, PAIRS)


def compiled_in_place():
    model = net()
    model.compile()
    return plain_training(model, PAIRS, functional.cross_entropy)


def step_of_a_batch():
    return laptime.Training(step=lambda batch: batch, data=PAIRS)
