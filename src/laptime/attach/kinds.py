"""The kinds of events that the agent sends, and how they are written. The parent reads them by the same table.

An event is four whole numbers of 64 bits: its kind, when it began and ended on the monotonic clock in nanoseconds, and
a value. The kind's higher bits hold which thread it was in: 0 for the first one that trained.
"""

from __future__ import annotations

FETCH = 1  # a batch came from a loader; value: the loader's number, and the batch's items
LOADER_END = 2  # a loader had no further batch; value: the loader's number
LOADER_OPEN = 3  # a loader was started; value: its number
BACKWARD = 4  # value: 0
STEP = 5  # an optimizer's step; value: the optimizer's number
SKIP = 6  # a gradient scaler left out the step; value: 0
SAVE = 7  # a checkpoint was written; value: the number of its place
COMPILE = 8  # a compiler ran; value: 0
LOSS = 9  # value: the bits of a float64
KERAS_BATCH = 10  # value: how many steps it was
KERAS_TEST = 11  # a validation; value: 0
KERAS_EPOCH = 12  # an epoch, from its begin to its end; value: 0
COPY = 13  # tensors were moved from the processor's memory to a card, until the script went on; value: 0
NO_GRAD = 14  # a stretch without gradients; value: the number of its place
KERAS_FETCH = 15  # a batch of Keras came; value: the number of what it came from
SYNC = 16  # the script waited until a disk had what it wrote; value: the number of its place
EVALUATED = 17  # a model, from its `eval()` to its `train()`; value: the number of its place
LINE = 18  # what a line took, in an iteration whose lines are timed; value: the number of its place, and LINE_WAITED
MEMORY = 19  # bytes that the process has, in value
CARD_MEMORY = 20  # bytes of tensors that PyTorch has on a card, in value
KERAS_MADE = 21  # a thread of TensorFlow made a batch; value: the number of what it came from above, the pass below
MADE_LINE = 22  # what a line of the script took in such a thread; value: as of LINE
PAGES = 23  # pages of memory that the system has handed out to the process so far, in value
COLLECTED = 24  # nanoseconds for which Python has looked for garbage so far, in value
KERAS_KINDS = frozenset((KERAS_BATCH, KERAS_TEST, KERAS_EPOCH, KERAS_FETCH, KERAS_MADE))
SOME = 25  # more than there are

PLACED = {NO_GRAD: "evaluation", EVALUATED: "evaluation", SAVE: "checkpoints", SYNC: "waiting for the disk"}

EVENT = "<4q"
BYTES_EACH = 32
NUMBERS_EACH = 4
THREAD_SHIFT = 8
KIND_MASK = (1 << THREAD_SHIFT) - 1
ITEMS_SHIFT = 32  # a fetch's value: the loader's number above, the items below; no items where they were not seen
ITEMS_MASK = (1 << ITEMS_SHIFT) - 1
LINE_WAITED = 1 << ITEMS_SHIFT  # added to the number of a line's place: its thread computed next to nothing meanwhile
PLACE_MASK = LINE_WAITED - 1
# Of what Keras made
PASS_SHIFT = ITEMS_SHIFT
PASS_MASK = ITEMS_MASK
AS_BEFORE = ITEMS_MASK  # in place of the items: nobody looked, they count as those of the loader's batch before

# Each message is a head and its body. A body of FACTS is one JSON object, one of EVENTS holds events.
MESSAGE_HEAD = "<cI"
FACTS, EVENTS = b"J", b"E"
ADDRESS = "LAPTIME_WATCH"  # the environment variable with the address of the parent's socket
ABSTRACT = "@"  # what the address of a socket that has no file begins with; all others are paths

# A script that is raced is held at the end of an iteration, and asks by FACTS (`held`) how to go on. The answer has
# what to do, how many ends of iterations to pass until it asks again, and how many batches to replay.
HOLDS_VARIABLE = "LAPTIME_HOLDS"  # the environment variable that makes an agent hold its script
CHANGES_OF_LINES = ("without", "twice", "seldom")  # settings that name a statement: `left_out` has what each does
OWN_MODULES = "LAPTIME_OWN_MODULES"  # the folder whose modules are the script's own
SET = "LAPTIME_SET"  # what the agent sets in the script: name=value, separated by commas
ANSWER = "<3q"
GO_ON = 1
FREE = 2  # never ask again
REPLAY = 3  # from now on, fetch the same few batches again and again; then as GO_ON
LOADER_ALONE = 4  # from now on, fetch batches and train no more; each fetch counts
TIME_LINES = 6  # time the lines of the next iterations, which the parent leaves out of all times; then as GO_ON
COUNT_WORK = 7  # count all operators of PyTorch until the next hold, off the clock; then as GO_ON
FETCH_AGAIN = 5  # fetch items of the data set a second time, off the clock, and compare them; then as GO_ON


def socket_name(address: str) -> str:
    """Return an address as the system wants it."""
    return "\0" + address[1:] if address.startswith(ABSTRACT) else address
