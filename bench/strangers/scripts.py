"""The published scripts of `bench/strangers.py`, and how each is run. None of their code is kept here."""

from __future__ import annotations

from strangers.nouns import Edit, Script

COMMITS = {
    "pytorch/examples": "77f55b912142e11fcfdf5b530231fb9c52f181e8",
    "karpathy/nanoGPT": "3adf61e154c3fe3fca428ad6bc3818b27a3b8291",
    "karpathy/minGPT": "37baab71b9abea1b76ab957409a1cc2fbfba8a26",
    "karpathy/makemore": "988aa59e4d8fefa526d06f3b453ad116258398d4",
    "yunjey/pytorch-tutorial": "0500d3df5a2a8080ccfccbc00aca0eacc21818db",
    "MorvanZhou/PyTorch-Tutorial": "dbe154a9e56635e51c6b0c2ccea8ae36cfb585a7",
    "graykode/nlp-tutorial": "d05e31ec81d56d70c1db89b99ab07e948f7ebc11",
    "eriklindernoren/PyTorch-GAN": "36d3c77e5ff20ebe0aeefd322326a134a279b93e",
    "kuangliu/pytorch-cifar": "49b7aa97b0c12fe0d4054e670403a16b6b834ddd",
    "vwxyzjn/cleanrl": "fe8d8a03c41a7ef5b523e2e354bd01c363e786bb",
    "L1aoXingyu/pytorch-beginner": "a57dd7ea35c9965a41f4963dee62d38884f92a65",
}
LOADS = "script waits for data"
MINGPT = ("--trainer.num_workers=0",)


def of_examples(name: str, *arguments: str, file: str = "main.py", **others: object) -> Script:
    return Script(f"examples/{name}", "pytorch/examples", name, file, arguments, **others)  # type: ignore[arg-type]


def of_yunjey(name: str, folder: str, **others: object) -> Script:
    place = f"tutorials/{folder}"
    return Script(f"yunjey/{name}", "yunjey/pytorch-tutorial", place, "main.py", **others)  # type: ignore[arg-type]


def of_graykode(name: str, folder: str, file: str) -> Script:
    return Script(f"graykode/{name}", "graykode/nlp-tutorial", folder, file)


def of_gans(name: str, *arguments: str, per: int = 2, **others: object) -> Script:
    place = f"implementations/{name}"
    return Script(f"gan/{name}", "eriklindernoren/PyTorch-GAN", place, f"{name}.py",
                  arguments or ("--n_epochs", "4"), per=per, **others)  # type: ignore[arg-type]  # fmt: skip


def of_morvan(name: str, **others: object) -> Script:
    return Script(f"morvan/{name}", "MorvanZhou/PyTorch-Tutorial", "tutorial-contents", f"{name}.py", **others)  # type: ignore[arg-type]


def of_cleanrl(name: str, *arguments: str, **others: object) -> Script:
    return Script(f"cleanrl/{name}", "vwxyzjn/cleanrl", ".", f"cleanrl/{name}.py",
                  ("--no-cuda", *arguments), **others)  # type: ignore[arg-type]  # fmt: skip


NO_DOWNLOAD = """    with requests.get(cora_url, stream=True) as tgz_file:
        with tarfile.open(fileobj=tgz_file.raw, mode='r:gz') as tgz_object:
            tgz_object.extractall()
"""
CONV = ("--n_epochs", "1", "--batch_size", "32")
SMALL = (960, 200)
DQN = ("--total-timesteps", "4000", "--learning-starts", "500", "--train-frequency", "1")
SCRIPT_ROWS = (
    of_examples("mnist", "--epochs", "2", items=(3200, 600)),
    of_examples("mnist_rnn", "--epochs", "2", items=(5000, 1000)),
    of_examples("mnist_forward_forward", "--epochs", "150", items=(300, 200)),
    of_examples("vae", "--epochs", "4", items=(6000, 1000), makes=("folder results",)),
    of_examples("dcgan", "--dataset", "fake", "--niter", "1", "--workers", "1", "--batchSize", "16", "--ngf", "16",
                "--ndf", "16", per=2, items=(1200, 200)),
    of_examples("gcn", "--epochs", "400", edits=(Edit(NO_DOWNLOAD, ""),), makes=("cora",)),
    of_examples("gat", "--epochs", "40", "--num-heads", "2", "--hidden-dim", "16", makes=("cora",)),
    of_examples("regression", counts="backwards"),
    of_examples("super_resolution", "--upscale_factor", "3", "--batchSize", "2", "--nEpochs", "3", "--threads", "1",
                makes=("images dataset/BSDS300/images/train 48", "images dataset/BSDS300/images/test 8")),
    of_examples("time_sequence_prediction", "--steps", "15", file="train.py", makes=("sines traindata.pt",)),
    of_examples("word_language_model", "--epochs", "2", "--emsize", "64", "--nhid", "64", counts="backwards",
                makes=("text data/wikitext-2/train.txt 80000", "text data/wikitext-2/valid.txt 6000",
                       "text data/wikitext-2/test.txt 6000")),
    of_examples("reinforcement_learning", "--log-interval", "20", file="reinforce.py",
                edits=(Edit("for i_episode in count(1):", "for i_episode in range(1, 250):"),)),
    Script("examples/actor_critic", "pytorch/examples", "reinforcement_learning", "actor_critic.py",
           edits=(Edit("for i_episode in count(1):", "for i_episode in range(1, 250):"),)),
    Script("nanoGPT", "karpathy/nanoGPT", ".", "train.py",
           ("--device=cpu", "--compile=False", "--dataset=made", "--eval_interval=1000", "--eval_iters=2",
            "--log_interval=10", "--block_size=64", "--batch_size=12", "--n_layer=4", "--n_head=4", "--n_embd=128",
            "--max_iters=250", "--gradient_accumulation_steps=1", "--dtype=float32"), makes=("numbers data/made",)),
    Script("minGPT/chargpt", "karpathy/minGPT", ".", "projects/chargpt/chargpt.py",
           ("--trainer.max_iters=300", "--model.model_type=gpt-nano", "--data.block_size=64", *MINGPT),
           makes=("text input.txt 8000",)),
    Script("minGPT/adder", "karpathy/minGPT", ".", "projects/adder/adder.py", ("--trainer.max_iters=450", *MINGPT)),
    Script("makemore", "karpathy/makemore", ".", "makemore.py", ("--max-steps", "450", "--num-workers", "1"),
           makes=("names names.txt",)),
    of_yunjey("feedforward", "01-basics/feedforward_neural_network", items=(8000, 1000)),
    of_yunjey("logistic", "01-basics/logistic_regression", items=(12000, 1000)),
    of_yunjey("birnn", "02-intermediate/bidirectional_recurrent_neural_network", items=(5000, 500)),
    of_yunjey("conv", "02-intermediate/convolutional_neural_network", items=(5000, 500)),
    of_yunjey("resnet", "02-intermediate/deep_residual_network", items=(1200, 200),
              edits=(Edit("num_epochs = 80", "num_epochs = 3"),)),
    of_yunjey("language_model", "02-intermediate/language_model", makes=("text data/train.txt 12000",)),
    of_yunjey("rnn", "02-intermediate/recurrent_neural_network", items=(5000, 500)),
    of_yunjey("gan", "03-advanced/generative_adversarial_network", per=2, items=(5000, 500),
              edits=(Edit("num_epochs = 200", "num_epochs = 6"),)),
    of_yunjey("vae", "03-advanced/variational_autoencoder", items=(3840, 500)),
    of_graykode("NNLM", "1-1.NNLM", "NNLM.py"),
    of_graykode("skipgram", "1-2.Word2Vec", "Word2Vec-Skipgram(Softmax).py"),
    of_graykode("TextCNN", "2-1.TextCNN", "TextCNN.py"),
    of_graykode("TextRNN", "3-1.TextRNN", "TextRNN.py"),
    of_graykode("TextLSTM", "3-2.TextLSTM", "TextLSTM.py"),
    of_graykode("BiLSTM", "3-3.Bi-LSTM", "Bi-LSTM.py"),
    of_graykode("Seq2Seq", "4-1.Seq2Seq", "Seq2Seq.py"),
    of_graykode("Seq2Seq-attention", "4-2.Seq2Seq(Attention)", "Seq2Seq(Attention).py"),
    of_graykode("BiLSTM-attention", "4-3.Bi-LSTM(Attention)", "Bi-LSTM(Attention).py"),
    of_graykode("BERT", "5-2.BERT", "BERT.py"),
    of_gans("gan", items=(6400, 100)),
    of_gans("aae", items=(6400, 100)),
    of_gans("acgan", *CONV, items=SMALL),
    of_gans(
        "began", *CONV, items=SMALL,
        edits=(Edit("(d_loss_real + torch.abs(diff)).data[0]", "(d_loss_real + torch.abs(diff)).item()"),),
    ),
    of_gans("cgan", items=(6400, 100)),
    of_gans("dcgan", *CONV, items=SMALL),
    of_gans("relativistic_gan", *CONV, items=SMALL),
    of_gans("ebgan", *CONV, items=SMALL),
    of_gans("lsgan", *CONV, items=SMALL),
    of_gans("sgan", *CONV, items=SMALL),
    of_gans("wgan", counts="batches", per=1, items=(6400, 100)),
    of_gans("wgan_gp", counts="batches", per=1, items=(6400, 100)),
    of_morvan("401_CNN", items=(6000, 2000)),
    of_morvan("402_RNN_classifier", items=(9600, 2000)),
    of_morvan("406_GAN", per=2),
    of_morvan("503_dropout", per=2),
    Script("cifar/lenet", "kuangliu/pytorch-cifar", ".", "main.py", items=(6000, 1000),
           edits=(Edit("_, term_width = os.popen('stty size', 'r').read().split()", "term_width = 80", "utils.py"),
                  Edit("\nnet = SimpleDLA()", "\nnet = LeNet()"),
                  Edit("start_epoch+200", "start_epoch+3"))),
    of_cleanrl("dqn", *DQN),
    of_cleanrl("c51", *DQN),
    of_cleanrl("ppo", "--total-timesteps", "8192", "--num-steps", "64"),
    Script("beginner/logistic", "L1aoXingyu/pytorch-beginner", "02-Logistic Regression", "Logistic_Regression.py",
           items=(9600, 1000), edits=(Edit("num_epochs = 100", "num_epochs = 4"),)),
    Script("beginner/network", "L1aoXingyu/pytorch-beginner", "03-Neural Network", "neural_network.py",
           items=(9600, 1000), edits=(Edit("num_epochs = 50", "num_epochs = 4"),)),
)  # fmt: skip
SCRIPTS = {script.name: script for script in SCRIPT_ROWS}
